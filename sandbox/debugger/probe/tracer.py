"""Find where to stop: at breakpoints while running freely, and at the end of a step."""

from __future__ import annotations

import sys
import threading
import types
from typing import TYPE_CHECKING, Any, Callable, Iterable, NamedTuple

from .awaiting import waiting_task
from .breakpoints import Breakpoint, BreakpointTable, Plan
from .evaluation import condition_holds
from .exceptions import first_reached
from .expressions import is_async
from .interpreter import (
    LIMIT,
    NONE_INLINED,
    Inlined,
    MoreStack,
    PendingCall,
    drop_cache,
    inlined_comprehensions,
    keep_cells,
    releasing_lines,
    running_frames,
    way_out,
)
from .monitor import Monitor
from .other_tracers import OtherTracers, get_trace
from .own import get_ident
from .workspace import Workspace

if TYPE_CHECKING:
    from .session import Session


def nested(depth: int) -> tuple[Any, ...]:
    classes: tuple[Any, ...] = (int,)
    for _ in range(depth):
        classes = (classes,)
    return classes


class Mending(PendingCall):
    """Restores the trace function that CPython removes because it raised.

    Before 3.12 a recursion that reaches its limit does so first in the trace function of the call,
    where no stack is left. So that function checks the stack ahead, by looking for a class in
    `deep`, which takes some levels; if there is too little it calls `begin`, and raises while
    there is still some. The restoring is a pending call of the main thread, where the recursion
    must be, as soon as the program goes on.
    """

    deep = nested(8)

    def __init__(self, lost: Callable[[], None]) -> None:
        import ctypes

        self.lost = lost
        """Called once the trace function is gone."""
        self.wanted = False
        super().__init__(ctypes)

    def begin(self) -> None:
        self.wanted = True
        self.add()

    def __bool__(self) -> bool:
        if get_trace() is not None:
            self.add()  # still in the trace function
        elif self.wanted:
            self.wanted = False
            self.lost()
        return False


LEVELS = 16 if sys.version_info[:2] in ((3, 9), (3, 10)) else 10
"""Levels of the stack that `trace_call` below takes at a call, as measured."""


def call_filter(
    table: BreakpointTable,
    on_call: Any,
    on_raise: Any,
    at_limit: Callable[[types.FrameType, RecursionError], None],
) -> Callable[[types.FrameType, str, Any], Any]:
    """The trace function for calls: ignores those without a breakpoint."""
    quiet, only_raising = table.quiet, table.only_raising
    deep = Mending.deep
    check = isinstance

    def trace_call(frame: types.FrameType, event: str, arg: Any) -> Any:
        try:
            check(None, deep)
            if id(frame.f_code) in quiet:
                return None
            if id(frame.f_code) in only_raising:
                frame.f_trace_lines = False
                return on_raise
            return on_call(frame, event, arg)
        except RecursionError as error:
            at_limit(frame, error)
            raise

    return trace_call


class Hits(NamedTuple):
    """The breakpoints that were hit, and notes about their conditions."""

    points: list[Breakpoint]
    notes: list[str]


RUN, OVER, INTO, OUT = "run", "over", "into", "out"
SUSPENDABLE = 0x20 | 0x80 | 0x100 | 0x200
"""Flags of the code of generators and coroutines."""
QUIET = (StopIteration, StopAsyncIteration, GeneratorExit)


class Tracer:
    """Finds where to stop: at breakpoints while running freely, and at the end of a step."""

    def __init__(self, workspace: Workspace, table: BreakpointTable, session: Session) -> None:
        self.workspace = workspace
        self.table = table
        self.session = session
        self.mode = RUN
        self.step_frame: types.FrameType | None = None
        self.step_thread = 0
        self.raising: types.FrameType | None = None
        self.entry_module: str | None = None
        """Steps look for the entry only in the module of this name."""
        self.monitor = Monitor.available(self)
        table.trace_raises = self.monitor is None
        self.inlined: tuple[types.CodeType | None, Inlined] = None, NONE_INLINED
        """A cache for the last code object."""
        self.step_inside = False
        """Whether the step began inside an inlined comprehension."""
        self.local = self._on_event
        self.filter = call_filter(table, self._on_call, self._on_raise, self._at_limit)
        self.mending = None if self.monitor else Mending(self._trace_again)
        self.off = False
        self.others = OtherTracers(self)
        self.reason = "step"
        """Why a step stops where it ends."""

    def run_freely(self, frame: types.FrameType | None) -> None:
        """Run to the next breakpoint, at full speed if nothing is watched."""
        self.mode = RUN
        self.step_frame = self.raising = None
        while frame is not None:
            if self._watches(frame):
                self.watch_by_plan(frame)
            frame = frame.f_back
        needed = self.table.breakpoints or self.table.entry_code
        traces = bool(needed) and not self.monitor
        LIMIT.trace(LEVELS if traces else 0)
        self.others.set_trace(self.filter if traces else None)

    def rest(self) -> None:
        """Trace nothing until `run_freely` is called: no code of the program runs before."""
        LIMIT.trace(0)
        self.others.set_trace(None)

    def watch_by_plan(self, frame: types.FrameType) -> None:
        """Trace a frame for its breakpoints, if these use the trace function."""
        plan = None if self.monitor else self.table.plan(frame.f_code)
        if plan is not None:
            frame.f_trace, frame.f_trace_lines = self.local, bool(plan.lines)
        elif self._watches(frame):
            frame.f_trace = None

    def _watches(self, frame: types.FrameType) -> bool:
        return frame.f_trace in (self.local, self._on_raise)

    def keep_trace_function(self) -> None:
        """Keep it from the program's own tracers. (One in C, such as coverage's, bypasses this: it
        ends the debugger's steps, and before CPython 3.12 its breakpoints, until the next stop.)"""
        if self.monitor:
            self.monitor.give_way()
        else:
            threading.settrace(self.filter)
        self.others.keep_out()

    def step(self, mode: str, frame: types.FrameType | None, reason: str = "step") -> None:
        """Run to the end of a step that began in `frame`; None: to the next line of the program."""
        self.mode, self.reason = mode, reason
        self.step_frame = frame
        self.step_thread = get_ident()
        if frame is not None:
            self.step_inside = frame.f_lasti in self._inlined(frame.f_code).inside
            frame.f_trace, frame.f_trace_lines = self.local, True
        self.others.set_trace(self._on_call)

    def pause_after(self, frame: types.FrameType) -> None:
        """Stop before the next line of a frame, as at a breakpoint."""
        self.step(OVER, frame, "breakpoint")

    def steps_here(self) -> bool:
        """Whether a step is under way in this thread."""
        return self.mode is not RUN and self.step_thread == get_ident()

    def mends(self) -> bool:
        """Whether a lost trace function is about to be restored."""
        return self.mending is not None and self.mending.wanted

    def refresh(self) -> None:
        """Apply changed breakpoints to running frames too."""
        if self.monitor:
            self.monitor.refresh()
            return
        for frame in running_frames():
            if self.table.plan(frame.f_code) is not None:
                self.watch_by_plan(frame)

    def stop_tracing(self) -> None:
        self.off = True
        self.others.set_trace(None)
        if self.monitor:
            self.monitor.close()

    def _at_limit(self, frame: types.FrameType, error: RecursionError) -> None:
        """A call is about to raise for lack of stack; no event will report it, and none the lines
        that run before the trace function is restored."""
        if self.mending is None:
            return
        self.others.hidden = True
        if self.table.raised.points:
            with MoreStack():
                self.at_raise(frame, error, None)
        self.mending.begin()

    def _trace_again(self) -> None:
        """CPython has removed the trace function: set it again."""
        if not self.off:
            self.others.set_trace(self._on_call if self.steps_here() else self.filter)
            self.refresh()

    def _on_call(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        if self.off:
            return None
        plan = None if self.monitor else self.table.plan(frame.f_code)
        if plan is not None:
            plan.call(frame)
            return self.local
        if self.mode is not RUN:
            if frame is self.step_frame:
                return self.local
            if self.mode is INTO and self._enterable(frame):
                return self.local
        return None

    def _enterable(self, frame: types.FrameType) -> bool:
        if get_ident() != self.step_thread:
            return False
        wanted = self.entry_module if self.step_frame is None else None
        if wanted is not None and frame.f_globals.get("__name__") != wanted:
            return False
        return self._steppable(frame)

    def _steppable(self, frame: types.FrameType) -> bool:
        """Whether it is the program's code, or library code that a step is already in."""
        name = frame.f_code.co_filename
        if self.workspace.mine(name):
            return True
        if self.step_frame is None or self.workspace.internal(name):
            return False
        if self.workspace.canonical(name).startswith("<"):
            return False
        return not self.workspace.mine(self.step_frame.f_code.co_filename)

    def _on_event(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            plan = None if self.monitor else self.table.plan(frame.f_code)
            if self.mode is not RUN or (plan is not None and frame.f_lineno in plan.eventful):
                self._on_eventful_line(frame, plan)
        elif self.off:
            return None
        elif event == "exception":
            if not self.monitor:
                self.at_raise(frame, arg[1], arg[2])
            if self.mode is not RUN:
                self._on_exception(frame, arg)
        elif self.mode is not RUN and event == "return":
            self._on_return(frame, arg)
        return None

    def _on_eventful_line(self, frame: types.FrameType, plan: Plan | None) -> None:
        if self.mode is not RUN or (plan is not None and frame.f_lineno in plan.lines):
            self._on_line(frame)
        releasing = releasing_lines(frame.f_code) if plan is None else plan.releasing
        if frame.f_lineno in releasing:
            drop_cache(frame)

    def _on_raise(self, frame: types.FrameType, event: str, arg: Any) -> None:
        """The trace function inside a frame for which only exceptions matter."""
        if event == "exception":
            self._on_event(frame, event, arg)

    def steps_in(self, frame: types.FrameType) -> bool:
        """Whether a step ends at the next line of a frame."""
        return frame is self.step_frame and self.mode in (OVER, INTO)

    def _on_line(self, frame: types.FrameType) -> None:
        # An empty module is entered at line 0.
        if self.off or not frame.f_lineno or self.session.serving_here():
            return
        self.raising = None
        if self.monitor and self.monitor.stopped_before is not None:
            stopped, self.monitor.stopped_before = self.monitor.stopped_before, None
            if stopped == (id(frame), frame.f_lineno):
                return
        # Where this event repeats a line for an iteration of a comprehension, a step skips it.
        # Breakpoints inside one use the monitor, or no comprehensions are inlined.
        inlined = self._inlined(frame.f_code)
        within = frame.f_lasti in inlined.inside and not self.step_inside and bool(self.monitor)
        if within or frame.f_lasti in inlined.turns:
            return
        if self.steps_in(frame) or (self.mode is INTO and self._enterable(frame)):
            if self.monitor:
                plan = self.table.plan(frame.f_code)
                watched = plan is not None and frame.f_lineno in plan.lines
                if watched:
                    self.monitor.stopped_at[get_ident()] = frame, frame.f_lasti
            hits = self._hits_at_line(frame)
            reason = self.reason if self.step_frame is not None else "entry"
            reason = "breakpoint" if hits.points else reason
            self.session.stop(frame, reason, hit=hits.points, notes=hits.notes)
        elif not self.monitor:
            self.at_breakpoint(frame)

    def _inlined(self, code: types.CodeType) -> Inlined:
        if self.inlined[0] is not code:
            self.inlined = code, inlined_comprehensions(code)
        return self.inlined[1]

    def at_breakpoint(self, frame: types.FrameType, target: int | None = None) -> None:
        """At a line with a breakpoint, or a jump to the `target` in it: stop if its condition
        holds."""
        if self.off or self.session.serving_here():
            return
        entry = False
        if self.table.entry_code is frame.f_code:
            plan = self.table.plan(frame.f_code)
            entry = plan is not None and frame.f_lasti == plan.offset
        hits = self._hits_at_line(frame, target)
        if hits.points or entry:
            reason = "entry" if entry else "breakpoint"
            self.session.stop(frame, reason, hit=hits.points, notes=hits.notes)

    def at_raise(
        self, frame: types.FrameType, error: BaseException, trace: types.TracebackType | None
    ) -> None:
        """An exception has reached a frame: stop if a breakpoint names its class."""
        if self.off or self.session.serving_here():
            return
        points = self.table.raised.matching(type(error))
        # Only in the first of the program's own frames.
        if not points or not first_reached(frame, error, trace, self.workspace.mine):
            return
        hits = self.count(points, frame, error)
        if hits.points:
            self.raising = frame
            if trace is not None:  # before CPython 3.12 the exception gets it when it is handled
                error.__traceback__ = trace
            self.session.stop(
                frame, "exception", hit=hits.points, notes=hits.notes, exception=error
            )

    def _hits_at_line(self, frame: types.FrameType, target: int | None = None) -> Hits:
        """The breakpoints hit at a line that is about to run."""
        plan = self.table.plan(frame.f_code)
        offset = frame.f_lasti if target is None else target
        if plan is None:
            return Hits([], [])
        hits = self.count(plan.due(frame, frame.f_lineno, offset), frame)
        hits.notes.extend(plan.notes if hits.points else ())
        return hits

    def count(
        self,
        due: Iterable[Breakpoint],
        frame: types.FrameType,
        error: BaseException | None = None,
    ) -> Hits:
        """Those of the breakpoints due whose conditions hold; `BreakpointTable.hit` counts them."""
        hits = Hits([], [])
        for point in due:
            holds, note = condition_holds(point, frame, self.workspace, error)
            keep_cells(frame if point.condition else None)
            hits.notes.extend([note] if note else [])
            point.false_conditions += not holds
            # Another thread may have been the first to hit a temporary one.
            if holds and (not point.temporary or self.table.discard(point)):
                hits.points.append(point)
        return hits

    def _on_return(self, frame: types.FrameType, value: Any) -> None:
        if frame is not self.step_frame:
            return
        way = "raises" if frame is self.raising else way_out(frame)
        if is_async(frame.f_code) and way == "suspends":
            return  # the frame will be resumed, and the step goes on there
        caller = frame.f_back
        if way == "raises" or caller is None or not self._steppable(caller):
            # The step's frame is gone: go on to the nearest caller that is the program's own. If
            # there is none and an exception ended the frame, a post mortem is likely to follow.
            caller = self._going_on(frame)
            if caller is not None:
                self.step(INTO if self.mode is INTO else OVER, caller, self.reason)
                return
            if way != "raises":
                note = "{} ended and no caller in the program goes on, so the program ran on"
                self.session.notes.append(note.format(frame.f_code.co_name))
            self.run_freely(frame)
        else:
            if way == "suspends":
                self.session.notes.append(f"{frame.f_code.co_name} yielded this and has not ended")
            returned = frame.f_code.co_name, value
            self.session.stop(caller, self.reason, returned=returned)

    def _going_on(self, frame: types.FrameType) -> types.FrameType | None:
        """The program's nearest caller of a frame; if the frame's task ends before one, the
        program's frame that waits for the task."""
        caller, in_task = frame.f_back, is_async(frame.f_code)
        while caller is not None and not self._steppable(caller):
            if in_task and not caller.f_code.co_flags & SUSPENDABLE:
                in_task = False
                waiting = self._waiting_frame()
                if waiting is not None:
                    return waiting
            caller = caller.f_back
        return caller

    def _waiting_frame(self) -> types.FrameType | None:
        """The program's innermost frame in the task that waits for the one that runs, if any: that
        goes on when this task ends."""
        waiting = waiting_task()
        frames = [] if waiting is None else [at.frame for at in waiting[1]]
        return next(filter(self._steppable, frames), None)

    def _on_exception(self, frame: types.FrameType, info: Any) -> None:
        kind, error, _ = info
        if self.mode is OUT or self.step_frame is None or issubclass(kind, QUIET):
            return
        if frame is self.raising:
            return  # a breakpoint has already stopped there
        if frame is self.step_frame or (self.mode is INTO and self._enterable(frame)):
            self.raising = frame
            self.session.stop(frame, "exception", exception=error)
