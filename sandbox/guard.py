"""Kill sandboxes whose processes or files as a whole take more memory or disk than they may.

For resources that the kernel limits only by process: control groups, which a program without root,
or in a container, can rarely use, would limit memory, and neither bubblewrap nor an engine's usual
storage can limit a disk. One thread per resource watches what the machine has left of it, which
costs nothing. It measures the sandboxes only once that has fallen a good deal, or after a while.

Memory counts what the kernel can't drop: private memory, swapped out or not, and shared memory.
Each page counts once, however many processes share it. Does not count mapped files, the kernel's
own buffers and tables, and shared memory that no process maps, such as files in memory.

Disk counts everything in a local sandbox's folder, however deep, and files that its processes hold
open after their removal. Does not count data in sockets, removed files that are only mapped, nor
what StepInto's user may not look into.
"""

from __future__ import annotations

import ctypes
import glob
import math
import os
import stat
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from sandbox.errors import DiskExceeded, OutOfMemory, SandboxDead

LARGEST_STEP = 256 * 1024 * 1024
"""Fall of the free bytes after which all are measured, or a quarter of the smallest limit."""
REST = 4
"""Each look is followed by a pause at least this many times as long, whatever it measures."""
TOLD: dict[type[SandboxDead], str] = {
    OutOfMemory: "its processes took more than {} MB of memory together (`sandbox.memory_mb`)",
    DiskExceeded: "its files took more than {} MB (`sandbox.disk_mb`)",
}


class ResourceUse:
    """One sandbox's use of a resource."""

    def __init__(
        self,
        error: type[SandboxDead],
        limit_mb: int,
        measure: Callable[[], int],
        kill: Callable[[], object],
    ) -> None:
        """`error` is raised for a sandbox that was killed for it. `measure` returns bytes, `kill`
        ends all processes of the sandbox; both are called from another thread."""
        self._error, self._limit_mb, self.limit = error, limit_mb, limit_mb * 1024 * 1024
        self._measure, self._kill = measure, kill
        self.exceeded = False
        """Whether it exceeded its limit, for which it is killed."""
        self._killed = False

    def check(self) -> None:
        """Measure the sandbox, and kill it if it takes too much."""
        if self._killed:
            return
        if self.exceeded or self._measure() > self.limit:
            self.exceeded = True
            self._kill()
            self._killed = True

    def require(self) -> None:
        """Raises `error` if the sandbox was killed for it."""
        if self.exceeded:
            raise self._error(f"the sandbox was killed: {TOLD[self._error]}".format(self._limit_mb))


class ResourceGuard:
    """Watches one resource for one process. Thread-safe."""

    def __init__(
        self,
        name: str,
        left: Callable[[], int],
        look_seconds: float,
        longest: float = math.inf,
    ) -> None:
        """`left` returns the machine's free bytes, and is called every `look_seconds`. Sandboxes
        are measured at least every `longest` seconds."""
        self._name, self._left = name, left
        self._look_seconds, self._longest = look_seconds, longest
        self._watched: set[ResourceUse] = set()
        self._changed = threading.Condition()
        self._most_left = 0
        self._measured = 0.0
        self._thread: threading.Thread | None = None

    def watch(self, sandbox: ResourceUse) -> None:
        with self._changed:
            if self._thread is None:
                self._most_left, self._measured = self._left(), time.monotonic()
                thread = threading.Thread(target=self._watch, name=self._name, daemon=True)
                thread.start()
                self._thread = thread
            self._watched.add(sandbox)
            self._changed.notify()

    def forget(self, sandbox: ResourceUse) -> None:
        with self._changed:
            self._watched.discard(sandbox)

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._watched)
                watched = list(self._watched)
            began = time.monotonic()
            try:
                if self._is_due(watched):
                    for sandbox in watched:
                        try:
                            sandbox.check()
                        except Exception as error:
                            self._warn(error)
            except Exception as error:
                self._warn(error)
            time.sleep(max(self._look_seconds, REST * (time.monotonic() - began)))

    def _is_due(self, watched: list[ResourceUse]) -> bool:
        """Whether what is left has fallen, or enough time passed, to measure the sandboxes."""
        left, now = self._left(), time.monotonic()
        self._most_left = max(self._most_left, left)
        step = min((LARGEST_STEP, *(sandbox.limit // 4 for sandbox in watched)))
        if self._most_left - left < step and now - self._measured < self._longest:
            return False
        self._most_left, self._measured = left, now
        return True

    def _warn(self, error: Exception) -> None:
        """Go on at the next look: without this thread no sandbox would be limited."""
        self._measured = -math.inf
        warnings.warn(
            f"the {self._name} can't see to it that a sandbox keeps to its limit: "
            f"{type(error).__name__}: {error}; it tries again",
            stacklevel=2,
        )


MEASUREMENTS = 3
"""All must be too large. One can be by mistake if processes end meanwhile: what they shared then
counts for those measured later."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
KCMP = {"x86_64": 312, "aarch64": 272}
"""The system call's number, by machine."""
KCMP_VM = 1
_LIBC = ctypes.CDLL(None)


def memory_below(roots: Iterable[int], enough: int) -> int:
    """Bytes that these processes and all their descendants take.

    Measures only enough to tell whether it is above `enough`; a result below that is an upper
    bound.
    """
    roots = list(roots)
    machine = _figures("/proc/meminfo")
    swapped = machine.get("SwapTotal", 0) - machine.get("SwapFree", 0)
    resident = sum(_statm(pid)[0] for pid in processes_below(roots))
    taken = resident + swapped + machine.get("Shmem", 0)
    # An exact measurement takes at least 0.1 ms for one process, more with more memory.
    for _ in range(MEASUREMENTS):
        if taken <= enough:
            break
        processes = processes_below(roots)
        taken = sum(_held(p) for p, parent in processes.items() if not _same_memory(p, parent))
    return taken


def available_bytes() -> int:
    """The bytes that programs can still allocate on this machine, including swap."""
    machine = _figures("/proc/meminfo")
    return machine.get("MemAvailable", 0) + machine.get("SwapFree", 0)


def processes_below(roots: Iterable[int]) -> dict[int, int]:
    """These processes and all their descendants, with each one's parent."""
    found: dict[int, int] = {}
    pending = [(root, 0) for root in roots]
    while pending:
        pid, parent = pending.pop()
        if pid in found:
            continue
        found[pid] = parent
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError):
                    children = Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split()
                    pending += [(int(child), pid) for child in children]
    return found


def _held(pid: int) -> int:
    """A process's private memory and its part of shared memory.

    If the kernel hides the details from this user, counts all memory that is not shared by design,
    so pages that a fork shares until one side writes count for both.
    """
    figures = _figures(f"/proc/{pid}/smaps_rollup")
    if not figures:
        resident, shared = _statm(pid)
        return resident - shared
    reclaimable = figures.get("Pss_File", 0) + figures.get("LazyFree", 0)
    return figures.get("Pss", 0) + figures.get("SwapPss", 0) - reclaimable


def _statm(pid: int) -> tuple[int, int]:
    """A process's resident memory, and how much of it belongs to files or is shared memory."""
    try:
        resident, shared = Path(f"/proc/{pid}/statm").read_bytes().split()[1:3]
    except (OSError, ValueError):
        return 0, 0
    return int(resident) * PAGE_BYTES, int(shared) * PAGE_BYTES


def _same_memory(first: int, second: int) -> bool:
    """Whether two processes share their memory, as between a vfork and the exec."""
    number = KCMP.get(os.uname().machine)
    return number is not None and _LIBC.syscall(number, first, second, KCMP_VM, 0, 0) == 0


def _figures(path: str) -> dict[str, int]:
    """The lines `name: number kB` of a table in /proc, in bytes; none if it can't be read."""
    figures = {}
    with suppress(OSError):
        for line in Path(path).read_bytes().decode("ascii", "replace").splitlines():
            name, _, value = line.partition(":")
            if value.endswith(" kB"):
                figures[name] = int(value[:-3]) * 1024
    return figures


MEMORY_LOOK = 0.1
MEMORY_LONGEST = 1.0
"""Most seconds between measurements: others may have freed what one sandbox takes."""


@lru_cache
def memory_guard() -> ResourceGuard:
    if not os.path.exists("/proc/thread-self/children"):
        warnings.warn(
            "this kernel does not tell which processes a process has started "
            "(CONFIG_PROC_CHILDREN): `sandbox.memory_mb` limits each process of a local sandbox, "
            "not all together; use sandbox.backend: docker where that matters",
            stacklevel=2,
        )
    return ResourceGuard("memory-guard", available_bytes, MEMORY_LOOK, MEMORY_LONGEST)


FILE_BYTES = 4096
"""The least that a file counts as, since a disk can also run out of files."""


def bytes_taken(folder: Path, roots: Iterable[int], device: int) -> int:
    """Bytes of all files below a folder, and of removed ones on this device that these processes
    and their descendants have open."""
    roots = list(roots)
    taken = max(_used(folder, "--block-size=1"), _used(folder, "--inodes") * FILE_BYTES)
    removed: dict[int, int] = {}
    for process, parent in processes_below(roots).items():
        # Bubblewrap's two processes hold none, and can't be inspected while they start.
        if process not in roots and parent not in roots:
            removed |= removed_files(process, device)
    return taken + sum(removed.values())


def _used(folder: Path, unit: str) -> int:
    """What `du` counts: it comes into the deepest folders, past those that it may not read."""
    command = ["du", "--summarize", unit, "--", str(folder)]
    told = subprocess.run(command, capture_output=True, check=False).stdout.split()
    # Without an answer the sandbox was closed meanwhile.
    return int(told[0]) if told else 0


def removed_files(process: int, device: int) -> dict[int, int]:
    """Removed files on a device that a process has open: bytes by inode. Root may look into every
    process. Others may not if the process forbids it, as the debugger's supervisor does."""
    held: dict[int, int] = {}
    # Threads may have own open files. The first may have ended, which hides what it shared.
    for path in glob.iglob(f"/proc/{process}/task/*/fd/*"):
        with suppress(OSError):
            found = os.stat(path)
            if found.st_nlink == 0 and found.st_dev == device and stat.S_ISREG(found.st_mode):
                held[found.st_ino] = _size(found)
    return held


def _size(found: os.stat_result) -> int:
    return max(found.st_blocks * 512, FILE_BYTES)


DISK_LOOK = 0.5
DISK_LONGEST = 20.0
"""Most seconds between measurements: others may free as much as one sandbox writes."""


def disk_guard(free: Callable[[], int]) -> ResourceGuard:
    """A guard of a disk with so many free bytes."""
    return ResourceGuard("disk-guard", free, DISK_LOOK, DISK_LONGEST)


@lru_cache
def guard_of(folder: str) -> ResourceGuard:
    return disk_guard(lambda: free_bytes(folder))


def free_bytes(folder: str) -> int:
    """The free space of a folder's disk, limited by its free files too; 0 if the folder is gone."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize + found.f_favail * FILE_BYTES
