"""Runs one server and ends it when its own standard input closes.

`python -I guard.py GRACE COMMAND ...` starts the command in a new session. The guard's parent holds
the other end of its standard input, which the kernel closes however the parent ends. Then, or on
SIGTERM, the command's process group gets SIGTERM, is killed GRACE seconds later, and so is
everything else that the command left. The exit status is the command's, or 128 plus the signal that
killed it. Uses only the standard library.
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
from collections.abc import Sequence
from pathlib import Path

POLL_SECONDS = 0.1
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
CANNOT_START = 127
SWEEPS = 50


def guard(grace: float, command: Sequence[str]) -> int:
    """Run the command until it ends or must end; returns its exit status."""
    told = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: told.set())
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    try:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            # No thread runs yet.
            preexec_fn=lambda: _prctl(PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509
        )
    except OSError as error:
        print(f"{command[0]} can't be started: {error}", flush=True)
        return CANNOT_START

    def await_end() -> None:
        with contextlib.suppress(OSError):
            while os.read(0, 1024):
                pass
        told.set()

    threading.Thread(target=await_end, daemon=True).start()
    while server.poll() is None and not told.wait(POLL_SECONDS):
        pass
    if server.poll() is None:
        _signal_group(server.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(timeout=grace)
    _signal_group(server.pid, signal.SIGKILL)
    server.wait()
    _sweep()
    status = server.returncode
    return status if status >= 0 else 128 - status


def _sweep() -> None:
    """Kill processes that the server started in other sessions: orphans become this process's
    children.
    """
    for _ in range(SWEEPS):
        orphans = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                # The name may contain spaces and brackets; the parent is the second field after it.
                parent = status.read_text(errors="replace").rpartition(")")[2].split()[1]
                if int(parent) == os.getpid():
                    orphans.append(int(status.parent.name))
        if not orphans:
            return
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)
        time.sleep(POLL_SECONDS / 10)


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _prctl(option: int, value: int) -> None:
    """Linux only; elsewhere only the guard's normal exit cleans up."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(guard(float(sys.argv[1]), sys.argv[2:]))
