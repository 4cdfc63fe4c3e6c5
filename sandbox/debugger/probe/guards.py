"""Keeps the program's hands off what the debugger needs in its process.

The C library keeps two signals to itself in the same way: a program that blocks, ignores or
handles all signals never gets at them.
"""

from __future__ import annotations

import atexit
import faulthandler
import signal
import sys
from typing import Any, Callable

from .wire import DUMP, INTERRUPT

KEPT = frozenset((INTERRUPT, DUMP))
SETS = ("pthread_sigmask", "sigwait", "sigwaitinfo", "sigtimedwait")
"""Functions of `_signal` that take a set of signals, and where in their arguments."""

native: Any = sys.modules["_signal"]
"""What the module `signal` calls."""
set_handler: Callable[[int, Any], Any] = native.signal
"""For the debugger itself."""


def install() -> None:
    """Before the program starts: its interrupts and its crash dumps stay the debugger's."""
    native.signal = keep_handlers
    for name in SETS:
        original = getattr(native, name, None)
        if original is not None:
            guarded = without_kept(original, 1 if name == "pthread_sigmask" else 0)
            if getattr(signal, name) is original:
                setattr(signal, name, guarded)
            setattr(native, name, guarded)
    # The interpreter's end gives signals back their default, which for these is death; this runs
    # after all that the program itself has to do at its end.
    atexit.register(set_handler, INTERRUPT, int(signal.SIG_IGN))
    # A test runner switches the dumps to its own stream, and off when it is done.
    for name in ("enable", "disable", "unregister"):
        setattr(faulthandler, name, lambda *_, **__: None)


def keep_handlers(number: Any, handler: Any) -> Any:
    """`signal.signal`, which leaves the debugger's own signals alone."""
    return signal.SIG_DFL if number in KEPT else set_handler(number, handler)


def without_kept(function: Callable[..., Any], at: int) -> Callable[..., Any]:
    """A function that takes a set of signals, without the debugger's own in it."""

    def guarded(*arguments: Any) -> Any:
        if len(arguments) <= at:
            return function(*arguments)
        numbers = set(arguments[at])
        if numbers & KEPT:
            numbers = (numbers & set(signal.valid_signals())) - KEPT
        return function(*arguments[:at], numbers, *arguments[at + 1 :])

    return guarded
