"""Host processes: run one to its end with bounded output, or hold a long-lived one.

Waits on Popen's output pipe, the process's pidfd and bubblewrap's status pipe together, so nothing
is polled, and a flood of output neither blocks the command nor fills memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import IO

from sandbox.base import SandboxConfig
from sandbox.disk import DiskUse, bytes_taken, guard_of
from sandbox.memory import MemoryUse, memory_below, memory_guard
from sandbox.text import BoundedOutput

IGNORED_IN_BACKGROUND = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
"""Signals that `nohup` and a shell's background jobs ignore; programs inherit this."""
FIRST_TO_GO = (
    *("/bin/sh", "-c"),
    '{ echo 1000 >/proc/self/oom_score_adj; } 2>/dev/null; exec "$0" "$@"',
)
"""Put before a command: if the machine runs out of memory, the kernel kills it before StepInto."""
END_GRACE = 5.0
"""Seconds to wait after a kill until the processes are gone."""


def default_signals() -> list[str]:
    """The option of `env` that makes a program interruptible though this process ignores
    signals."""
    ignored = [each for each in IGNORED_IN_BACKGROUND if signal.getsignal(each) is signal.SIG_IGN]
    names = ",".join(each.name.removeprefix("SIG") for each in ignored)
    return [f"--default-signal={names}"] if names and _can_reset_signals() else []


@lru_cache
def _can_reset_signals() -> bool:
    """GNU's `env` can since coreutils 8.31."""
    command = ["env", "--default-signal=INT", "true"]
    # With the same PATH as the processes started later.
    asked = subprocess.run(command, env={}, capture_output=True, check=False)
    return asked.returncode == 0


class HostProcess:
    """A started process, its pidfd, and bubblewrap's status reports."""

    def __init__(self, popen: subprocess.Popen[bytes], status_fd: int | None) -> None:
        self._popen = popen
        self._status_fd = status_fd
        self._inner_pidfd: int | None = None
        self._ending = threading.Lock()
        self._ended = False
        """After the end its process numbers may be reused."""
        self.pidfd = os.pidfd_open(popen.pid)
        self._status: dict[str, int] = {}
        self._read_status()

    @property
    def pid(self) -> int:
        """Its number on the host; may be reused once there is a `return_code`."""
        return self._popen.pid

    @property
    def return_code(self) -> int | None:
        """None while it runs; minus the signal's number if a signal ended it."""
        return self._popen.poll()

    @property
    def reported_exit_code(self) -> int | None:
        """The sandboxed command's exit code from bubblewrap; None if it never ran to an end."""
        return self._status.get("exit-code")

    def kill(self) -> None:
        """Kill the process with its PID namespace, or if unsandboxed with its group."""
        self._popen.kill()
        with self._ending, contextlib.suppress(ProcessLookupError, PermissionError):
            if self._ended:
                return
            if self._inner_pidfd is None:
                os.killpg(self._popen.pid, signal.SIGKILL)
            else:
                # During start-up, killing the outer process does not yet kill the inner one.
                signal.pidfd_send_signal(self._inner_pidfd, signal.SIGKILL)

    def finish(self) -> int:
        """Wait for the process and its PID namespace to end; returns its return code."""
        code = self._popen.wait()
        if self._status_fd is not None:
            self._read_status()
            os.close(self._status_fd)
            self._status_fd = None
        if self._inner_pidfd is not None:
            wait_readable(self._inner_pidfd, END_GRACE)
        with self._ending:
            self._ended = True
            if self._inner_pidfd is not None:
                os.close(self._inner_pidfd)
                self._inner_pidfd = None
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1
        return code

    def _read_status(self) -> None:
        """Read bubblewrap's reports; the first one comes as soon as its child exists."""
        if self._status_fd is None:
            return
        pending = b""
        while "child-pid" not in self._status or self._popen.poll() is not None:
            chunk = os.read(self._status_fd, 4096)
            pending += chunk
            *lines, pending = pending.split(b"\n")
            for line in lines:
                self._status.update(json.loads(line))
            if not chunk:
                break
            if "child-pid" in self._status and self._inner_pidfd is None:
                self._inner_pidfd = _open_pidfd(self._status["child-pid"])


def start(
    argv: Sequence[str],
    *,
    stdin: int,
    output: int,
    status: tuple[int, int] | None = None,
    passed: Sequence[int] = (),
    new_group: bool = True,
) -> HostProcess:
    """Start a process on the given descriptors, with an empty environment.

    `status` is the read and write end of a pipe; the process gets the write end, and the
    descriptors in `passed`. Without `new_group` the process must start its own session.
    """
    try:
        popen = subprocess.Popen(
            [*FIRST_TO_GO, *argv],
            stdin=stdin,
            stdout=output,
            stderr=output,
            env={},
            process_group=0 if new_group else None,
            pass_fds=(*passed, *(() if status is None else (status[1],))),
        )
    except BaseException:
        if status is not None:
            os.close(status[0])
        raise
    finally:
        if status is not None:
            os.close(status[1])
    return HostProcess(popen, None if status is None else status[0])


def collect(process: HostProcess, output: int, deadline: float, kept: BoundedOutput) -> bool:
    """Read output until the process ends or `deadline` (monotonic) passes; then kill what is left.

    Returns whether the deadline passed first.
    """
    os.set_blocking(output, False)
    poller = select.poll()
    poller.register(output, select.POLLIN)
    poller.register(process.pidfd, select.POLLIN)
    timed_out = False
    while process.return_code is None:
        left = deadline - time.monotonic()
        if left <= 0:
            timed_out = True
            break
        ready = [fd for fd, _ in poller.poll(min(left, 3600) * 1000)]
        if output in ready and not _drain(output, kept, once=True):
            poller.unregister(output)
    process.kill()
    process.finish()
    _drain_to_end(output, kept)
    return timed_out


def _drain(output: int, kept: BoundedOutput, once: bool = False) -> bool:
    """Read what is there; False once the other side is closed."""
    while True:
        try:
            chunk = os.read(output, 1 << 16)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        kept.add(chunk)
        if once:
            return True


def _drain_to_end(output: int, kept: BoundedOutput) -> None:
    """Read the rest; bounded, since an unsandboxed child may still hold the pipe."""
    end = time.monotonic() + 1
    while time.monotonic() < end and wait_readable(output, 0.05):
        if not _drain(output, kept, once=True):
            return


def wait_readable(fd: int, seconds: float) -> bool:
    """Whether a descriptor becomes readable within this many seconds."""
    poller = select.poll()
    poller.register(fd, select.POLLIN)
    return bool(poller.poll(seconds * 1000))


def stdin_file(data: bytes, owner: int) -> IO[bytes]:
    """A file with a command's standard input, which `owner` may reopen."""
    file = os.fdopen(os.memfd_create("stdin", os.MFD_CLOEXEC), "w+b")
    file.write(data)
    file.seek(0)
    give(file.fileno(), owner)
    return file


def give(fd: int, owner: int) -> None:
    """Let the sandbox's user reopen a descriptor by name (/dev/stdin, /dev/stdout)."""
    if os.geteuid() == 0 and owner != 0:
        os.fchown(fd, owner, owner)


def from_lasting_thread(call: Callable[[], HostProcess]) -> HostProcess:
    """Start a process from a thread that lives as long as this process.

    `--die-with-parent` is PR_SET_PDEATHSIG, which the kernel sends when the *thread* that forked
    ends. So a process that outlives the call must not be forked by a short-lived worker thread.
    """
    return _starter(os.getpid()).submit(call).result()


@lru_cache(maxsize=1)
def _starter(pid: int) -> ThreadPoolExecutor:
    # Keyed by pid, since a forked child of this process has none of its threads.
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"sandbox-starter-{pid}")


def _open_pidfd(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None


# The running processes of a local sandbox, and their limits as a whole.


class RunningProcesses:
    """The processes of one sandbox, killed once they, or their files, exceed a limit.

    Thread-safe.
    """

    def __init__(self, config: SandboxConfig, folder: Path) -> None:
        """`folder` holds all files that they may write."""
        self._running: set[HostProcess] = set()
        self._lock = threading.Lock()
        self._closed = False
        self._folder = folder
        self._disk = DiskUse(config.disk_mb, self._disk_taken, self.kill)
        self._memory = MemoryUse(config.memory_mb, self._memory_taken, self.kill)
        self._disk_guard, self._memory_guard = guard_of(str(folder.parent)), memory_guard()
        self._disk_guard.watch(self._disk)

    def add(self, process: HostProcess) -> None:
        """Add a started process; kill it if none may run any more."""
        with self._lock:
            self._running.add(process)
            ended = self._closed or self._disk.exceeded or self._memory.exceeded
            if not ended:
                self._memory_guard.watch(self._memory)
        if ended:
            process.kill()

    def discard(self, process: HostProcess) -> None:
        """Remove a process that has ended."""
        with self._lock:
            self._running.discard(process)
            if not self._running:
                self._memory_guard.forget(self._memory)

    def kill(self) -> None:
        with self._lock:
            running = list(self._running)
        for process in running:
            process.kill()

    def require(self) -> None:
        """Raises OutOfMemory or DiskExceeded if the processes were killed for it."""
        self._memory.require()
        self._disk.require()

    def close(self) -> None:
        """Kill all processes, including those added later."""
        with self._lock:
            self._closed = True
        self._disk_guard.forget(self._disk)
        self._memory_guard.forget(self._memory)
        self.kill()

    def _disk_taken(self) -> int:
        return bytes_taken(self._folder, self._roots())

    def _memory_taken(self) -> int:
        return memory_below(self._roots(), self._memory.limit)

    def _roots(self) -> list[int]:
        with self._lock:
            # The number of an ended process may have been reused.
            return [process.pid for process in self._running if process.return_code is None]
