"""The trace functions of a program that runs freely, which do as little as possible."""

from __future__ import annotations

import types
from typing import Any, Callable, Tuple

from .breakpoints import BreakpointTable
from .hook import TraceHook, get_trace

OnLimit = Callable[[types.FrameType, RecursionError], None]


def nested(depth: int) -> Tuple[Any, ...]:
    value: Tuple[Any, ...] = ()
    for _ in range(depth):
        value = (value,)
    return value


class Mending:
    """Restores the trace function that CPython removes because it raised.

    Before 3.12 a recursion that reaches its limit does so first in the trace function of the call,
    where no stack is left. So that function checks the stack ahead, by comparing `one` with
    `other`, which takes some levels; if there is too little it calls `begin`, and raises while
    there is still some. The restoring is a pending call of the interpreter, `PyObject_IsTrue`,
    which runs the method below in the main thread (where the recursion must be) as soon as the
    program goes on.
    """

    one, other = nested(8), nested(8)

    def __init__(self, lost: Callable[[], None]) -> None:
        import ctypes

        self.lost = lost
        """Called once the trace function is gone."""
        self.wanted = False
        self._add: Any = ctypes.pythonapi.Py_AddPendingCall
        self._arguments = ctypes.pythonapi.PyObject_IsTrue, ctypes.py_object(self)

    def begin(self) -> None:
        self.wanted = True
        self._add(*self._arguments)

    def __bool__(self) -> bool:
        if get_trace() is not None:
            self._add(*self._arguments)  # still in the trace function
        elif self.wanted:
            self.wanted = False
            self.lost()
        return False  # any other value is an error


def call_filter(
    table: BreakpointTable, hook: TraceHook, on_call: Any, at_limit: OnLimit
) -> Callable[[types.FrameType, str, Any], Any]:
    """The trace function for calls: ignores those without a breakpoint."""
    quiet, only_raising, on_raise = table.quiet, table.only_raising, hook.on_raise
    one, other = Mending.one, Mending.other

    def trace_call(frame: types.FrameType, event: str, arg: Any) -> Any:
        try:
            _ = one == other
            if id(frame.f_code) in quiet:
                return None
            if id(frame.f_code) in only_raising:
                # The program's own tracer still gets the lines.
                frame.f_trace_lines = hook.functions.programs is not None
                return on_raise
            return on_call(frame, event, arg)
        except RecursionError as error:
            at_limit(frame, error)
            raise

    return trace_call


def raise_filter(on_event: Any) -> Callable[[types.FrameType, str, Any], None]:
    """The trace function inside a frame for which only exceptions matter."""

    def trace_raise(frame: types.FrameType, event: str, arg: Any) -> None:
        if event == "exception":
            on_event(frame, event, arg)

    return trace_raise
