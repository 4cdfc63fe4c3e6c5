"""What the debugger keeps for itself in the program's process: functions of the standard library,
saved before a test can replace them (`mock.patch("builtins.open")` must not affect the debugger),
and signals, which the program can neither ignore nor handle."""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
import sys
import threading
import time
from importlib.util import find_spec, module_from_spec
from io import StringIO
from io import open as open_file
from json import JSONDecoder, JSONEncoder
from stat import S_ISREG
from types import SimpleNamespace
from typing import Any, Callable

decode, encode_json = JSONDecoder().decode, JSONEncoder(separators=(",", ":")).encode
read, walk, write, _stat = os.read, os.walk, os.write, os.stat


def _own_paths() -> Any:
    """`os.path` once more: its functions call each other and those of `os` by name, and a test may
    replace these too."""
    spec = find_spec("posixpath")
    assert spec is not None
    assert spec.loader is not None
    paths: Any = module_from_spec(spec)
    spec.loader.exec_module(paths)
    paths.os = SimpleNamespace(**vars(os))
    return paths


basename, join = os.path.basename, os.path.join
realpath: Callable[[str], str] = _own_paths().realpath
get_ident, sleep = threading.get_ident, time.sleep
monotonic = time.monotonic


def read_file(path: str) -> bytes:
    """All bytes of a file. Raises OSError, also for a pipe or a device, which may have no end."""
    if not isfile(path):
        raise OSError(f"{path} is no regular file")
    with open_file(path, "rb") as file:
        return file.read()


def source_lines(text: str) -> list[str]:
    """The lines of a source file as the compiler counts them, without their ends. `str.splitlines`
    would also split at form feeds, U+2028 and others."""
    return [line.rstrip("\r\n") for line in StringIO(text, newline="")]


def modified(path: str) -> int:
    """When a file was last written, in nanoseconds. Raises OSError."""
    return _stat(path).st_mtime_ns


def isfile(path: str) -> bool:
    """Whether there is a file at a path, following links."""
    try:
        return S_ISREG(_stat(path).st_mode)
    except (OSError, ValueError):
        return False


INTERRUPT = signal.SIGRTMAX - 1
"""Sent by the supervisor: stop where you are."""
DUMP = signal.SIGRTMAX - 2
"""Sent before a kill: write the Python stack, from C, to the dump pipe."""
KEPT = frozenset((INTERRUPT, DUMP))

native: Any = sys.modules["_signal"]
"""The module that `signal` wraps."""
set_handler: Callable[[int, Any], Any] = native.signal
"""For the debugger's own use."""


def install_guards() -> None:
    """Called before the program starts, to protect interrupts and crash dumps."""
    # The interpreter's exit resets signals to their default, which kills for these. This runs after
    # all the program's own exit handlers.
    atexit.register(set_handler, INTERRUPT, int(signal.SIG_IGN))
    # A test runner redirects the dumps to its own stream, and disables them when it is done.
    for name in ("enable", "disable", "unregister"):
        setattr(faulthandler, name, lambda *_, **__: None)
