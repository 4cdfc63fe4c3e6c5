"""Memory kept back for the moment in which the program has used up all its own.

Two want memory then. The debugger, to show where the program is: it has a `reserve`. And before
that CPython, to note in a traceback each frame that the MemoryError passes: where there is no
memory for one, it drops the whole traceback, and nothing tells any longer where the program was.
No code of the debugger's can come in between, so CPython must find memory by itself: `room`.

CPython takes what is no larger than 512 bytes from pools, each for one size. So a program that
fills its memory with small objects leaves alone what is free in the pools of other sizes.
"""

from __future__ import annotations

import functools
import inspect
import mmap
import sys
import types
from typing import Any, List, Optional

from .interpreter import import_standard

RESERVE = 8 * 1024 * 1024
STEP = 16
"""Bytes between the sizes of two pools; and what an object that refers to others has in front."""
TRACEBACK = 384
"""Bytes of an entry of a traceback, once it is widened."""
ENTRIES = 128
FRAMES = range(144, 513, STEP) if sys.version_info >= (3, 11) else ()
"""The sizes of frames, where CPython makes an object of one only as something asks for it."""
FRAMES_OF_A_SIZE = 16
KEPT = 4
"""One block of so many stays in use: an empty pool would go to any other size."""


class SpareMemory:
    """What the debugger, and CPython for it, has where the program finds no more."""

    def __init__(self) -> None:
        self.reserve: Optional[mmap.mmap] = None
        self.room: List[bytes] = []

    def make_room(self) -> None:
        """Keep free what a traceback takes; what was free before, the program may have used."""
        self.room = room()

    def take(self) -> None:
        """Keep the reserve back from here on, as the program goes on."""
        self.reserve = reserve()

    def release(self) -> None:
        """Give the reserve to the debugger, which takes over.

        Where memory is out this is done without a call, which takes memory where it is traced.
        """
        self.reserve = None


SPARE = SpareMemory()
"""That of the debuggee."""


def reserve() -> Optional[mmap.mmap]:
    """Memory that is never touched, and so costs nothing but its part of the limit."""
    try:
        return mmap.mmap(-1, RESERVE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, MemoryError):
        return None


def room() -> List[bytes]:
    """Free places for a traceback and its frames, as long as the result is kept."""
    try:
        kept = blocks(STEP + TRACEBACK, ENTRIES)
        for size in FRAMES:
            kept += blocks(size, FRAMES_OF_A_SIZE)
        return kept
    except MemoryError:
        return []


def blocks(size: int, count: int) -> List[bytes]:
    """Objects of a size in bytes: those that are kept of `count`."""
    return [bytes(size - bytes.__basicsize__) for _ in range(count)][::KEPT]


def releasing(test: Any) -> Any:
    """A test function that gives the reserve back as it runs out of memory: its runner wants
    memory too, before it tells the debugger. A coroutine function stays as it is."""
    if isinstance(test, types.MethodType):
        return types.MethodType(releasing(test.__func__), test.__self__)
    if not inspect.isfunction(test) or inspect.iscoroutinefunction(test):
        return test

    @functools.wraps(test)
    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return test(*arguments, **named)
        except MemoryError:
            SPARE.reserve = None
            raise

    return call


def widen_tracebacks() -> None:
    """Give the entries of a traceback a size of which programs have few objects.

    As CPython makes them they are as large as a list or a dictionary, of which a program out of
    memory often has many.
    """
    try:
        ctypes = import_standard("ctypes")
    except ImportError:  # CPython was built without libffi
        return
    # `tp_basicsize`, which stands behind `ob_size` and `tp_name`.
    address = id(types.TracebackType) + object.__basicsize__ + 2 * ctypes.sizeof(ctypes.c_void_p)
    size = ctypes.c_ssize_t.from_address(address)
    if size.value == types.TracebackType.__basicsize__ < TRACEBACK:
        size.value = TRACEBACK
