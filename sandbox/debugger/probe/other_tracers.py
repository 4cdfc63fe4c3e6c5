"""Tracers that the program or its libraries start: trace functions, which are not called, debuggers
such as pdb, in whose place this one stops, and tracers in C such as coverage's, which only show by
having replaced the debugger's trace function."""

from __future__ import annotations

import sys
import threading
import types
from bdb import Bdb
from typing import TYPE_CHECKING, Any, Callable

from .evaluation import RUNNING_CONDITIONS
from .own import get_ident

if TYPE_CHECKING:
    from .tracer import Tracer

set_trace, get_trace = sys.settrace, sys.gettrace
NOT_CALLED = "the program sets a trace function, which is not called while it is debugged"
CALLED = "{} calls a debugger, as breakpoint() does: this session pauses instead"
STEP_ENDED = (
    "the step was lost and the program ran on: another tracer, such as coverage's, or a "
    "RecursionError ended the debugger's"
)
UNASKED = ("hypothesis",)
"""Libraries that trace what they call for themselves, and can do without."""


class OtherTracers:
    """Keeps the trace function of each thread, of which CPython has one, for the debugger."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer
        self.programs = threading.local()
        """The functions that the program set, and would get back."""
        self.debuggers = threading.local()
        """The functions that the debugger set last."""
        self.hidden = False
        """Whether another tracer has hidden breakpoints."""
        self.not_called = False
        """Whether the program has set a trace function."""

    def set_trace(self, function: Any) -> None:
        """`sys.settrace`, for the debugger. None leaves a tracer in C that the program started."""
        last = getattr(self.debuggers, "function", None)
        self.debuggers.function = function
        if function is not None or get_trace() == last:
            set_trace(function)

    def keep_out(self) -> None:
        """Called before the program starts."""
        sys.settrace = self._on_set
        sys.gettrace = lambda: getattr(self.programs, "function", None)
        for name in ("settrace", "settrace_all_threads"):
            if hasattr(threading, name):
                setattr(threading, name, self._on_set_for_threads)
        setattr(Bdb, "set_trace", pausing(Bdb.set_trace, self._pause_after))  # noqa: B010

    def _on_set(self, function: Any) -> None:
        tracer = self.tracer
        if function is tracer.filter:  # from `threading`, in a new thread
            self.set_trace(function)
            return
        self.programs.function = function
        caller = sys._getframe(1)
        if isinstance(getattr(function, "__self__", None), Bdb):
            self._replace(function, caller)
        elif function is not None and self._is_asked(caller):
            self.not_called = True
            self._tell(NOT_CALLED)

    def _on_set_for_threads(self, function: Any) -> None:
        if function is not None and self._is_asked(sys._getframe(1)):
            self.not_called = True
            self._tell(NOT_CALLED)

    def _tell(self, note: str) -> None:
        """Note it once, however often a program does it."""
        notes = self.tracer.session.notes
        if note not in notes:
            notes.append(note)

    def _is_asked(self, caller: types.FrameType) -> bool:
        """Whether the program traces, rather than a library or a plugin by itself."""
        module = str(caller.f_globals.get("__name__"))
        return module.partition(".")[0] not in UNASKED and self._own_frame(caller) is not None

    def _own_frame(self, frame: types.FrameType | None) -> types.FrameType | None:
        while frame is not None and not self.tracer.workspace.mine(frame.f_code.co_filename):
            frame = frame.f_back
        return frame

    def _replace(self, function: Any, caller: types.FrameType) -> None:
        """Stop in place of a debugger, and take the frames back that it meant to trace."""
        frame: types.FrameType | None = caller
        while frame is not None:
            if frame.f_trace == function:
                frame.f_trace = None
                self.tracer.watch_by_plan(frame)
            frame = frame.f_back
        own = self._own_frame(caller)
        if own is not None:
            self._pause_after(own)

    def _pause_after(self, frame: types.FrameType) -> bool:
        """Stop at the next line after a call of a debugger, which this one takes the place of."""
        tracer = self.tracer
        if tracer.off:
            return False
        if tracer.session.serving_here() or get_ident() in RUNNING_CONDITIONS:
            return True  # called by an expression: the program has stopped already
        code, line = frame.f_code, frame.f_lineno
        place = f"{tracer.workspace.relative(code.co_filename)}:{line}"
        self._tell(CALLED.format(place))
        tracer.pause_after(frame)
        return True

    def reasons(self) -> list[str]:
        """Notes on what may have made the program fail that would not without a debugger."""
        return [NOT_CALLED] if self.not_called else []

    def notice(self) -> list[str]:
        """Notice, at a stop or at the end, whether another tracer has replaced the debugger's in
        this thread. Returns notes."""
        tracer = self.tracer
        expected = getattr(self.debuggers, "function", None)
        if expected is None or get_trace() == expected or tracer.mends():
            return []
        self.debuggers.function = None  # to be told once
        self.hidden |= tracer.monitor is None
        return [STEP_ENDED] if tracer.steps_here() else []


def pausing(original: Callable[..., None], pause: Callable[[types.FrameType], bool]) -> Any:
    """`Bdb.set_trace`, which all debuggers on `bdb` call, to pause this debugger instead."""

    def set_trace(self: Any, frame: types.FrameType | None = None) -> None:
        here = sys._getframe(1) if frame is None else frame
        if not pause(here):
            original(self, here)

    return set_trace
