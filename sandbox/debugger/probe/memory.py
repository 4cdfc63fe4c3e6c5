"""Memory kept in reserve for when the program has used up its own.

Two things need memory then. The debugger shows where the program is; for that it has a `reserve`.
And before that, CPython adds a traceback entry for each frame that the MemoryError passes. If it
can't allocate one, it drops the whole traceback, and the program's position is lost. No debugger
code can run in between, so CPython must find free memory: `room`.

CPython allocates up to 512 bytes from pools, one per size. So a program that fills its memory with
small objects does not use the free blocks in pools of other sizes.
"""

from __future__ import annotations

import functools
import inspect
import mmap
import sys
import types
from typing import Any

from .interpreter import import_standard

RESERVE = 8 * 1024 * 1024
STEP = 16
"""Bytes between the sizes of two pools, and the size of a container object's header."""
TRACEBACK = 384
"""Bytes of a traceback entry, once widened."""
ENTRIES = 128
FRAMES = range(144, 513, STEP) if sys.version_info >= (3, 11) else ()
"""The sizes of frame objects, in versions where CPython creates these only on request."""
FRAMES_OF_A_SIZE = 16
KEPT = 4
"""One block in this many stays in use, since an empty pool could be reused for any size."""


class SpareMemory:
    """Memory for the debugger, and for CPython, once the program finds no more."""

    def __init__(self) -> None:
        self.reserve: mmap.mmap | None = None
        self.room: list[bytes] = []

    def make_room(self) -> None:
        """Free blocks for a traceback and its frames again, as long as `room` is kept; the program
        may have used the earlier ones."""
        try:
            kept = blocks(STEP + TRACEBACK, ENTRIES)
            for size in FRAMES:
                kept += blocks(size, FRAMES_OF_A_SIZE)
        except MemoryError:
            kept = []
        self.room = kept

    def take(self) -> None:
        """Reserve memory, as the program goes on. Untouched, it only counts against the limit."""
        try:
            self.reserve = mmap.mmap(-1, RESERVE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, MemoryError):
            self.reserve = None

    def release(self) -> None:
        """Free the reserve for the debugger.

        When memory is out this is done without a call, since a traced call needs memory.
        """
        self.reserve = None


SPARE = SpareMemory()
"""The debuggee's."""


def blocks(size: int, count: int) -> list[bytes]:
    """Allocate `count` objects of a size in bytes, and keep every KEPT-th one."""
    return [bytes(size - bytes.__basicsize__) for _ in range(count)][::KEPT]


def releasing(test: Any) -> Any:
    """Wrap a test function to free the reserve when it runs out of memory, since its runner needs
    memory before the debugger does. Leaves coroutine functions unchanged."""
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
    """Give traceback entries a size that few objects have.

    By default they are as large as a list or a dictionary, of which a program out of memory often
    has many.
    """
    try:
        ctypes = import_standard("ctypes")
    except ImportError:  # CPython was built without libffi
        return
    # `tp_basicsize`, which follows `ob_size` and `tp_name`.
    address = id(types.TracebackType) + object.__basicsize__ + 2 * ctypes.sizeof(ctypes.c_void_p)
    size = ctypes.c_ssize_t.from_address(address)
    if size.value == types.TracebackType.__basicsize__ < TRACEBACK:
        size.value = TRACEBACK
