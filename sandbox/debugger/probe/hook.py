"""CPython's trace function, shared with a program that sets its own."""

from __future__ import annotations

import sys
import threading
import types
from typing import Any

set_trace, get_trace = sys.settrace, sys.gettrace
set_trace_for_threads = threading.settrace


class Functions(threading.local):
    """The trace functions of one thread."""

    ours: Any = None
    programs: Any = None


class TraceHook:
    """The one trace function that CPython has per thread, shared by the debugger and the program.

    A program that measures its coverage, or is itself a debugger, would end the debugger's tracing,
    and the debugger the program's. So the program gets a replacement of `sys.settrace` that joins
    the two. A tracer in C (such as coverage's) bypasses it: it ends the debugger's steps, and
    before CPython 3.12 its breakpoints, until the next stop.
    """

    def __init__(self, local: Any, on_raise: Any) -> None:
        self.local = local
        """The debugger's trace function inside a frame."""
        self.on_raise = on_raise
        """The trace function inside frames for which only exceptions matter."""
        self.functions = Functions()
        self.new_threads: Any = None
        self.programs_threads: Any = None

    def share(self) -> None:
        """Replace `sys.settrace`."""
        sys.settrace, sys.gettrace = self.set_programs, self.get_programs

    def set_programs(self, function: Any) -> None:
        """The program's `sys.settrace`, also for the module `threading`."""
        if function is not None and function is self.new_threads:
            self.functions.ours, function = function, self.programs_threads
        self.functions.programs = function
        self._apply()

    def get_programs(self) -> Any:
        return self.functions.programs

    def install(self, function: Any) -> None:
        """Set the debugger's function in this thread; None: run it untraced."""
        self.functions.ours = function
        self._apply()

    def install_in_new_threads(self, function: Any) -> None:
        """Set the debugger's function in future threads, beside the program's own."""
        self.new_threads = function
        set_trace_for_threads(function)
        setattr(threading, "settrace", self._set_programs_for_threads)  # noqa: B010

    def _set_programs_for_threads(self, function: Any) -> None:
        self.programs_threads = function

    def watch(self, frame: types.FrameType, lines: bool) -> None:
        """Trace a frame that already runs: its lines too, or only its exceptions."""
        function = frame.f_trace
        if isinstance(function, Joined):
            function.ours, lines = self.local, True
        elif function is None or function in (self.local, self.on_raise):
            frame.f_trace = self.local
        else:
            frame.f_trace, lines = Joined(self.local, function), True
        frame.f_trace_lines = lines

    def leave(self, frame: types.FrameType) -> None:
        """Stop tracing a frame."""
        function = frame.f_trace
        if isinstance(function, Joined):
            frame.f_trace = function.programs
        elif function in (self.local, self.on_raise):
            frame.f_trace = None

    def watches(self, frame: types.FrameType) -> bool:
        function = frame.f_trace
        return isinstance(function, Joined) or function in (self.local, self.on_raise)

    def _apply(self) -> None:
        set_trace(joined(self.functions.ours, self.functions.programs))


class Joined:
    """Two trace functions as one."""

    def __init__(self, ours: Any, programs: Any) -> None:
        self.ours = ours
        self.programs = programs

    def __call__(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        ours = self.ours(frame, event, arg) if self.ours is not None else None
        programs = self.programs(frame, event, arg)
        if event == "call":
            return joined(ours, programs)
        if programs is not None:
            self.programs = programs
        return None


def joined(ours: Any, programs: Any) -> Any:
    """One trace function that calls both; None if there is none."""
    if ours is None or programs is None:
        return programs if ours is None else ours
    return Joined(ours, programs)
