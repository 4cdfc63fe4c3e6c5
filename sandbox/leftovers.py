"""Temporary folders of local sandboxes, and removal of those that killed owners have left.

A folder is `stepinto-sandbox-*` in the host's temporary folder. Its owner holds an flock on it
while it lives, which the kernel releases however the owner dies, so no process numbers need
comparing.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "stepinto-sandbox-"
"""Long enough that no user's folder is mistaken for a sandbox's and removed."""


class OwnedFolder:
    """A fresh temporary folder, locked by this process until `remove`."""

    def __init__(self) -> None:
        # Locked under a name that `remove_leftovers` ignores, then renamed.
        unlocked = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
        self._locks = [lock for lock in [_lock(unlocked)] if lock is not None]
        self.path = unlocked.with_name(unlocked.name[1:])
        os.rename(unlocked, self.path)

    def remove(self) -> None:
        """Remove the folder and its contents; safe to call twice."""
        remove_folder(self.path)
        # Of two threads one closes it: the number may be another file's by then.
        with suppress(IndexError):
            os.close(self._locks.pop())


def remove_leftovers() -> list[Path]:
    """Remove and return this user's folders of dead owners, and kill what still runs in them."""
    removed = []
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        lock = _lock(path)
        if lock is None:
            continue
        _kill_bubblewraps(path)
        remove_folder(path)
        os.close(lock)
        removed.append(path)
    return removed


def _kill_bubblewraps(folder: Path) -> None:
    """Kill a folder's bubblewraps, left if their owner was killed while they started."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile, or another user's
            pidfd = os.pidfd_open(int(process.name))
            try:
                program, *options = (process / "cmdline").read_text(errors="replace").split("\0")
                inside = any(Path(option).is_relative_to(folder) for option in options)
                if inside and Path(program).name == "bwrap":
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            finally:
                os.close(pidfd)


def remove_folder(path: Path) -> None:
    """Remove a folder even if its programs made it read-only or nested it very deeply."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        subprocess.run(["chmod", "-R", "u+rwX", "--", path], capture_output=True, check=False)
        subprocess.run(["rm", "-rf", "--", path], capture_output=True, check=False)


def _lock(path: Path) -> int | None:
    """Lock one's own folder exclusively; None if it is another user's or already locked."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if os.fstat(handle).st_uid == os.geteuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
    except BlockingIOError:
        pass
    os.close(handle)
    return None


INITIAL_NAMESPACE = str(0xEFFFFFFC)
"""The PID namespace of a machine at boot (Linux, PROC_PID_INIT_INO); containers have others."""


def owner_tag() -> str:
    """Identifies this process among those of all machines, PID namespaces and boots."""
    pid = os.getpid()
    return f"{_machine()} {_namespace()} {_boot_id()} {pid} {_start_time(pid)}"


def owner_is_dead(tag: str) -> bool | None:
    """Whether the process of an `owner_tag` has ended. None if unknown: it is of another machine or
    another PID namespace, or /proc hides it."""
    try:
        machine, namespace, boot, pid, started = tag.split()
    except ValueError:
        return None
    if (machine, namespace) != (_machine(), _namespace()):
        return None
    if boot != _boot_id():
        return True if namespace == INITIAL_NAMESPACE else None
    found = _start_time(int(pid))
    if found is not None:
        return found != started
    try:
        with suppress(PermissionError):
            os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    # A process has this number, maybe another one.
    return None


def _machine() -> str:
    """The machine's id, which containers of one image may share, and name, which machines may."""
    try:
        machine = Path("/etc/machine-id").read_text().strip()
    except OSError:
        machine = ""
    return f"{machine or _boot_id()}-{platform.node()}"


def _namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _start_time(pid: int) -> str | None:
    """Clock ticks after boot (proc(5), field 22); the name before it may hold spaces. None if there
    is no such process, or /proc hides other users' (hidepid)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
