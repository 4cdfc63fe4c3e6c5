"""Ways to raise `Interrupted` in code that runs too long."""

from __future__ import annotations

import sys
import types
from typing import Optional

from .interpreter import import_standard
from .own import monotonic_ns
from .wire import Interrupted

MACHINERY = frozenset(
    (
        "__enter__", "__exit__", "ended", "on_interrupt", "interrupt", "interrupt_conditions",
        "_interrupt_elsewhere", "reached", "_send", "begin", "end", "_add", "__bool__",
    )
)  # fmt: skip
"""The debugger's functions that begin, end and interrupt an evaluation, and must run to their
end."""


def interruptible(frame: Optional[types.FrameType]) -> bool:
    """Whether `Interrupted` may be raised in a frame: in the program's code below an evaluation, or
    where a value is rendered, but not in the debugger's code around those."""
    top = frame
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith("<stepinto "):
            rendering = code.co_filename == "<stepinto values>"
            return rendering or (frame is not top and code.co_name not in MACHINERY)
        frame = frame.f_back
    return False


def raise_in(thread: int, kind: Optional[type]) -> None:
    """Raise an exception in another thread, at its next instruction; None cancels it."""
    ctypes = import_standard("ctypes")
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(kind) if kind is not None else None
    )


class Expulsion:
    """Forces a program out of an evaluation in which it caught `Interrupted`.

    It registers itself as a pending call, which the interpreter runs whenever it checks for
    signals, and raises there again: so also between an `except` and the next `try`. The interpreter
    calls `PyObject_IsTrue`, and so the method below. (A trace function could not do it, since there
    is no tracing below the trace function of a stop.)
    """

    def __init__(self) -> None:
        self.active = False
        self.beginning = False

    def begin(self) -> None:
        """Called in the main thread's handler; usually raises `Interrupted` there already."""
        self.active = self.beginning = True
        self._add()

    def end(self) -> None:
        """The evaluation is over: raise nothing from now on."""
        self.active = False

    def _add(self) -> None:
        ctypes = import_standard("ctypes")
        interpreter = ctypes.pythonapi
        interpreter.Py_AddPendingCall(interpreter.PyObject_IsTrue, ctypes.py_object(self))

    def __bool__(self) -> bool:
        if self.active:
            self._add()
            if self.beginning or (interruptible(sys._getframe(1)) and self._in_turn()):
                self.beginning = False
                raise Interrupted
        return False

    def _in_turn(self) -> bool:
        """Not each time: CPython 3.12 runs no pending call right after one that raised, so it would
        always hit the same places of a loop. 3.13.0 forgets pending calls that did not raise."""
        return sys.version_info >= (3, 13) or monotonic_ns() % 8 == 0
