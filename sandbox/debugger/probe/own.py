"""The standard library's functions that the debugger uses while the program runs, saved before a
test can replace them: `mock.patch("builtins.open")` must not affect the debugger."""

from __future__ import annotations

import os
from io import StringIO
from io import open as open_file
from json import JSONDecoder, JSONEncoder
from os import read, walk, write
from os.path import basename, join, realpath
from stat import S_ISREG
from threading import get_ident
from time import clock_gettime_ns, monotonic, monotonic_ns, sleep
from typing import List

__all__ = [
    "basename", "decode", "encode_json", "get_ident", "isfile", "join", "modified", "monotonic",
    "monotonic_ns", "passed_file_time", "read", "read_file", "realpath", "sleep", "source_lines",
    "walk", "write",
]  # fmt: skip
decode = JSONDecoder().decode
encode_json = JSONEncoder(separators=(",", ":")).encode
_stat = os.stat
_CLOCK_REALTIME_COARSE = 5


def read_file(path: str) -> bytes:
    """All bytes of a file. Raises OSError."""
    with open_file(path, "rb") as file:
        return file.read()


def source_lines(text: str) -> List[str]:
    """The lines of a source file as the compiler counts them, without their ends. `str.splitlines`
    would also split at form feeds, U+2028 and others."""
    return [line.rstrip("\r\n") for line in StringIO(text, newline="")]


def passed_file_time() -> int:
    """The current time in nanoseconds, by the clock of Linux's file times, which advances every 10
    ms or less. Files written after this returns have later times."""
    now = clock_gettime_ns(_CLOCK_REALTIME_COARSE)
    for _ in range(20):  # bounded, in case the clock is replaced
        if clock_gettime_ns(_CLOCK_REALTIME_COARSE) != now:
            break
        sleep(0.001)
    return now


def modified(path: str) -> int:
    """When a file was last written, in nanoseconds. Raises OSError."""
    return _stat(path).st_mtime_ns


def isfile(path: str) -> bool:
    """Whether there is a file at a path, following links."""
    try:
        return S_ISREG(_stat(path).st_mode)
    except (OSError, ValueError):
        return False
