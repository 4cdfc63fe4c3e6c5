"""Runs one server and outlives nobody: when its own standard input ends, so does the server.

`python -I guard.py GRACE COMMAND ...` starts the command in a session of its own. Whoever started
the guard holds the other end of its standard input, which the kernel closes however that process
ends. Then, and on SIGTERM, the command's process group is told to end, is killed GRACE seconds
later, and so is whatever the command left behind. The exit status is the command's, or 128 and the
number of the signal that it died of. Needs the standard library alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

POLL_SECONDS = 0.1
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CANNOT_START = 127
SWEEPS = 50


def guard(grace: float, command: Sequence[str]) -> int:
    """Run the command until it ends, or has to; gives its exit status."""
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: told.set())
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with_guard,  # noqa: PLW1509  no thread runs yet
        )
    except OSError as error:
        print(f"{command[0]} can't be started: {error}", flush=True)
        return CANNOT_START
    threading.Thread(target=_await_end, args=(told,), daemon=True).start()
    while server.poll() is None and not told.wait(POLL_SECONDS):
        pass
    _end(server, grace)
    _sweep()
    status = server.returncode
    return status if status >= 0 else 128 - status


def _await_end(told: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    told.set()


def _end(server: subprocess.Popen[bytes], grace: float) -> None:
    """Tell the server's group to end, then kill what is left of it."""
    if server.poll() is None:
        _signal_group(server.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(timeout=grace)
    _signal_group(server.pid, signal.SIGKILL)
    server.wait()


def _sweep() -> None:
    """Kill what the server started in sessions of its own: orphans become this process's."""
    for _ in range(SWEEPS):
        orphans = list(_children())
        if not orphans:
            return
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        time.sleep(POLL_SECONDS / 10)


def _children() -> Iterator[int]:
    own = os.getpid()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name may hold spaces and brackets; the parent is the second field behind it.
            if int(status.read_text(errors="replace").rpartition(")")[2].split()[1]) == own:
                yield int(status.parent.name)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _die_with_guard() -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    """Linux alone has it; elsewhere the guard's own ending is what there is."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(guard(float(sys.argv[1]), sys.argv[2:]))
