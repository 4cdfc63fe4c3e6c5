"""Protect what the debugger needs in its process from the program.

The C library protects two signals of its own in the same way: a program that blocks, ignores or
handles all signals never affects them.
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
"""Functions of `_signal` that take a set of signals, and the index of that argument."""

native: Any = sys.modules["_signal"]
"""The module that `signal` wraps."""
set_handler: Callable[[int, Any], Any] = native.signal
"""For the debugger's own use."""


def install() -> None:
    """Called before the program starts, to protect interrupts and crash dumps."""
    native.signal = keep_handlers
    for name in SETS:
        original = getattr(native, name, None)
        if original is not None:
            guarded = without_kept(original, 1 if name == "pthread_sigmask" else 0)
            if getattr(signal, name) is original:
                setattr(signal, name, guarded)
            setattr(native, name, guarded)
    # The interpreter's exit resets signals to their default, which kills for these. This runs after
    # all the program's own exit handlers.
    atexit.register(set_handler, INTERRUPT, int(signal.SIG_IGN))
    # A test runner redirects the dumps to its own stream, and disables them when it is done.
    for name in ("enable", "disable", "unregister"):
        setattr(faulthandler, name, lambda *_, **__: None)


def keep_handlers(number: Any, handler: Any) -> Any:
    """`signal.signal`, except that it ignores the debugger's signals."""
    return signal.SIG_DFL if number in KEPT else set_handler(number, handler)


def without_kept(function: Callable[..., Any], at: int) -> Callable[..., Any]:
    """Wrap a function that takes a set of signals, to remove the debugger's from it."""

    def guarded(*arguments: Any) -> Any:
        if len(arguments) <= at:
            return function(*arguments)
        numbers = set(arguments[at])
        if numbers & KEPT:
            numbers = (numbers & set(signal.valid_signals())) - KEPT
        return function(*arguments[:at], numbers, *arguments[at + 1 :])

    return guarded
