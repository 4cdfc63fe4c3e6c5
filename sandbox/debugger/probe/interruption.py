"""Ways to raise `Interrupted` in code that runs too long."""

from __future__ import annotations

import sys
import types
from typing import Any, Optional

from .interpreter import import_standard
from .wire import Interrupted


def interruptible(frame: Optional[types.FrameType]) -> bool:
    """Whether `Interrupted` may be raised in a frame: the debugger's own work is to end whole."""
    name = frame.f_code.co_filename if frame is not None else ""
    return not name.startswith("<stepinto ") or name == "<stepinto values>"


def raise_in(thread: int, kind: Optional[type]) -> None:
    """Raise an exception in another thread, at its next instruction; None: take it back."""
    ctypes = import_standard("ctypes")
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(kind) if kind is not None else None
    )


class Expulsion:
    """Drives a program out of an evaluation whose `Interrupted` it has swallowed.

    A trace function raises it again at the next line, which is where an `except` begins. Raising
    ends the tracing, so a profile function takes it up again where a frame is left.
    """

    def __init__(self) -> None:
        self.began = False
        self.profile: Any = None
        self.trace: Any = None

    def begin(self, frame: Optional[types.FrameType]) -> None:
        if not self.began:
            self.profile, self.trace = sys.getprofile(), sys.gettrace()
        self.began = True
        self._watch(frame)
        sys.setprofile(self._on_return)

    def end(self) -> None:
        if self.began:
            sys.setprofile(self.profile)
            sys.settrace(self.trace)

    def _watch(self, frame: Optional[types.FrameType]) -> None:
        while frame is not None and interruptible(frame):
            frame.f_trace = self._on_line
            frame = frame.f_back
        sys.settrace(self._on_line)

    def _on_line(self, frame: types.FrameType, event: str, arg: Any) -> Any:
        if not interruptible(frame):
            return None
        if event == "line":
            raise Interrupted
        return self._on_line

    def _on_return(self, frame: types.FrameType, event: str, arg: Any) -> None:
        if event == "return" and interruptible(frame):
            self._watch(frame.f_back)
