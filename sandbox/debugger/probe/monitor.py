"""Breakpoints through `sys.monitoring`, from CPython 3.12 on."""

from __future__ import annotations

import sys
import types
from functools import wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Callable

from .breakpoints import Plan
from .interpreter import NO_LINE, running_frames
from .memory import SPARE
from .own import get_ident

if TYPE_CHECKING:
    from .tracer import Tracer

TOOLS = (0, 4, 3, 5, 2, 1)
"""All of them, beginning with the debuggers' own, and those that are nobody's."""
TAKING_A_TOOL = (
    *("use_tool_id", "clear_tool_id", "free_tool_id", "get_tool", "register_callback"),
    *("get_events", "set_events", "get_local_events", "set_local_events"),
)
NO_TOOL_FREE = (
    "the program uses all tools of `sys.monitoring`, of which this debugger has {}: without one "
    "that is free, too"
)


def free_tool(monitoring: Any) -> int | None:
    return next((tool for tool in TOOLS if monitoring.get_tool(tool) is None), None)


class Monitor:
    """Breakpoints through `sys.monitoring`: code without one runs at its native speed."""

    def __init__(self, tracer: Tracer, monitoring: Any, tool: int) -> None:
        self.table = tracer.table
        self.at_breakpoint, self.at_raise = tracer.at_breakpoint, tracer.at_raise
        self.steps_in = tracer.steps_in
        self.monitoring = monitoring
        self.tool = tool
        self.closed = False
        self.session = tracer.session
        self.watched: list[types.CodeType] = []
        self.stopped_at: dict[int, tuple[types.FrameType, int]] = {}
        """By thread: the frame and offset where a step has stopped, before the line's event."""
        self.stopped_before: tuple[int, int] | None = None
        """The frame's id and the line where a step begins, before the line's event."""
        events = monitoring.events
        self.callbacks: dict[int, Callable[..., Any]] = {
            events.PY_START: self._on_start,
            events.PY_RESUME: self._on_start,
            events.PY_THROW: self._on_throw,
            events.LINE: self._on_line,
            events.JUMP: self._on_jump,
            events.BRANCH: self._on_jump,
            events.RAISE: self._on_raise,
        }
        self._begin()

    def _begin(self) -> None:
        self.monitoring.use_tool_id(self.tool, "stepinto")
        for event, callback in self.callbacks.items():
            self.monitoring.register_callback(self.tool, event, callback)
        self._choose_events()

    @staticmethod
    def available(tracer: Tracer) -> Monitor | None:
        module: Any = getattr(sys, "monitoring", None)
        if module is None:
            return None
        monitoring = SimpleNamespace(**vars(module))
        tool = free_tool(monitoring)
        return None if tool is None else Monitor(tracer, monitoring, tool)

    def give_way(self) -> None:
        """Called before the program runs: it finds each tool free, as without a debugger."""
        module: Any = sys.monitoring  # type: ignore[attr-defined]
        for name in TAKING_A_TOOL:
            if hasattr(module, name):
                setattr(module, name, self._giving_way(getattr(module, name)))

    def _giving_way(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(tool: Any, *arguments: Any) -> Any:
            if type(tool) is int and tool == self.tool and not self.closed:
                self._move()
            return function(tool, *arguments)

        return call

    def _move(self) -> None:
        """Go on with another tool."""
        other = free_tool(self.monitoring)
        if other is None:
            note = NO_TOOL_FREE.format(self.tool)
            if note not in self.session.notes:
                self.session.notes.append(note)
            return
        watched = self.watched
        self._end()
        self.tool = other
        self._begin()
        for code in watched:
            plan = self.table.plan(code)
            if plan is not None:
                self._watch(code, plan)
        self.monitoring.restart_events()  # for what was disabled for the tool that is free now

    def _choose_events(self) -> None:
        """Exceptions are only monitored while there is a breakpoint on one."""
        events = self.monitoring.events
        wanted = events.PY_START | events.PY_RESUME | events.PY_THROW
        if self.table.raised.points:
            wanted |= events.RAISE
        self.monitoring.set_events(self.tool, wanted)

    def _on_raise(self, code: types.CodeType, offset: int, error: BaseException) -> None:
        if type(error) is MemoryError:
            SPARE.reserve = None
        if self.table.raised.matching(type(error)):
            self.at_raise(sys._getframe(1), error, error.__traceback__)

    def _on_start(self, code: types.CodeType, offset: int) -> Any:
        plan = self.table.plan(code)
        if plan is None:
            return self.monitoring.DISABLE
        if not self.monitoring.get_local_events(self.tool, code):
            self._watch(code, plan)
        if plan.reentered:
            plan.call(sys._getframe(1))
            return None
        if not NO_LINE or offset != plan.offset:
            return self.monitoring.DISABLE
        frame = sys._getframe(1)
        self.at_breakpoint(frame)
        self.stopped_before = (id(frame), frame.f_lineno) if self.steps_in(frame) else None
        return None

    def _on_throw(self, code: types.CodeType, offset: int, error: BaseException) -> None:
        """A suspended generator or coroutine goes on with an exception."""
        plan = self.table.plan(code)
        if plan is not None and not self.monitoring.get_local_events(self.tool, code):
            self._watch(code, plan)

    def _watch(self, code: types.CodeType, plan: Plan) -> None:
        events = self.monitoring.events
        jumps = events.JUMP | events.BRANCH if plan.silent else 0
        self.monitoring.set_local_events(self.tool, code, events.LINE | jumps)
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

    def _on_jump(self, code: types.CodeType, offset: int, target: int) -> Any:
        plan = self.table.plan(code)
        if plan is None or offset not in plan.silent:
            return self.monitoring.DISABLE
        frame = sys._getframe(1)
        # A step has a line event for a jump back.
        steps = target < offset and self.steps_in(frame)
        if plan.silent[offset] == target and not steps:
            self.at_breakpoint(frame, target)
        return None

    def refresh(self) -> None:
        for code in self.watched:
            self.monitoring.set_local_events(self.tool, code, 0)
        self.watched = []
        for code in {id(frame.f_code): frame.f_code for frame in running_frames()}.values():
            plan = self.table.plan(code)
            if plan is not None:
                self._watch(code, plan)
        self._choose_events()
        self.monitoring.restart_events()

    def close(self) -> None:
        self.closed = True
        self._end()

    def _end(self) -> None:
        self.monitoring.set_events(self.tool, 0)
        for code in self.watched:
            self.monitoring.set_local_events(self.tool, code, 0)
        self.watched = []
        for event in self.callbacks:
            self.monitoring.register_callback(self.tool, event, None)
        self.monitoring.free_tool_id(self.tool)
