"""Breakpoints through `sys.monitoring`, from CPython 3.12 on."""

from __future__ import annotations

import sys
import types
from typing import Any, Callable, Dict, List, Optional, Tuple

from .breakpoints import BreakpointTable
from .frames import running_frames
from .memory import SPARE
from .own import get_ident

OnLine = Callable[[types.FrameType], None]
OnRaise = Callable[[types.FrameType, BaseException, Optional[types.TracebackType]], None]


class Monitor:
    """Breakpoints through `sys.monitoring`: code without one runs at its native speed."""

    def __init__(
        self,
        table: BreakpointTable,
        at_breakpoint: OnLine,
        at_raise: OnRaise,
        monitoring: Any,
        tool: int,
    ) -> None:
        self.table = table
        self.at_breakpoint = at_breakpoint
        self.at_raise = at_raise
        self.monitoring = monitoring
        self.tool = tool
        self.watched: List[types.CodeType] = []
        self.stopped_at: Dict[int, Tuple[types.FrameType, int]] = {}
        """By thread: the frame and line where a step has already stopped, before the line's
        event."""
        events = monitoring.events
        monitoring.use_tool_id(tool, "stepinto")
        monitoring.register_callback(tool, events.PY_START, self._on_start)
        monitoring.register_callback(tool, events.PY_RESUME, self._on_start)
        monitoring.register_callback(tool, events.LINE, self._on_line)
        monitoring.register_callback(tool, events.RAISE, self._on_raise)
        self._choose_events()

    @staticmethod
    def available(
        table: BreakpointTable, at_breakpoint: OnLine, at_raise: OnRaise
    ) -> Optional[Monitor]:
        monitoring = getattr(sys, "monitoring", None)
        if monitoring is None:
            return None
        for tool in (monitoring.DEBUGGER_ID, 4, 3):
            if monitoring.get_tool(tool) is None:
                return Monitor(table, at_breakpoint, at_raise, monitoring, tool)
        return None

    def _choose_events(self) -> None:
        """Exceptions are only monitored while there is a breakpoint on one."""
        events = self.monitoring.events
        wanted = events.PY_START | events.PY_RESUME
        if self.table.raised.points:
            wanted |= events.RAISE
        self.monitoring.set_events(self.tool, wanted)

    def _on_raise(self, code: types.CodeType, offset: int, error: BaseException) -> None:
        if type(error) is MemoryError:
            SPARE.reserve = None
        if self.table.raised.matching(type(error)):
            self.at_raise(sys._getframe(1), error, error.__traceback__)

    def _on_start(self, code: types.CodeType, offset: int) -> Any:
        if self.table.plan(code) is not None:
            self._watch(code)
        return self.monitoring.DISABLE

    def _watch(self, code: types.CodeType) -> None:
        self.monitoring.set_local_events(self.tool, code, self.monitoring.events.LINE)
        self.watched.append(code)

    def _on_line(self, code: types.CodeType, line: int) -> Any:
        stopped = self.stopped_at.pop(get_ident(), None) if self.stopped_at else None
        plan = self.table.plan(code)
        if plan is None or line not in plan.lines:
            return self.monitoring.DISABLE
        frame = sys._getframe(1)
        if stopped is None or stopped[0] is not frame or stopped[1] != frame.f_lasti:
            self.at_breakpoint(frame)
        return None

    def refresh(self) -> None:
        for code in self.watched:
            self.monitoring.set_local_events(self.tool, code, 0)
        self.watched = []
        for code in {id(frame.f_code): frame.f_code for frame in running_frames()}.values():
            if self.table.plan(code) is not None:
                self._watch(code)
        self._choose_events()
        self.monitoring.restart_events()

    def close(self) -> None:
        self.monitoring.set_events(self.tool, 0)
        for code in self.watched:
            self.monitoring.set_local_events(self.tool, code, 0)
        self.monitoring.free_tool_id(self.tool)
