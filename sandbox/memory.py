"""Measure the memory of processes, from /proc, and kill local sandboxes that take too much.

The kernel limits a group of processes only by control groups, which a program without root, or in a
container, can rarely use.

Counts what the kernel can't drop: private memory, swapped out or not, and shared memory with files
in memory (tmpfs, memfd). Each page counts once, however many processes share it. Does not count
mapped files, the kernel's own buffers and tables, and shared memory that no process maps or has
open.
"""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from sandbox.guard import ResourceGuard

MEASUREMENTS = 3
"""All must be too large. One can be by mistake if processes end meanwhile: what they shared then
counts for those measured later."""
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
KCMP = {"x86_64": 312, "aarch64": 272}
"""The system call's number, by machine."""
KCMP_VM, KCMP_FILES = 1, 2
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
        held = [_held(pid) for pid, parent in processes.items() if not same(KCMP_VM, pid, parent)]
        # Files in memory may be mapped as well; the larger of both is at least half of their union.
        shared = max(sum(shared for _, shared in held), _in_files(processes))
        taken = sum(own for own, _ in held) + shared
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


def _held(pid: int) -> tuple[int, int]:
    """A process's private memory and its part of shared memory.

    If the kernel hides the details from this user, counts all memory that is not shared by design,
    so pages that a fork shares until one side writes count for both.
    """
    figures = _figures(f"/proc/{pid}/smaps_rollup")
    if not figures:
        resident, shared = _statm(pid)
        return resident - shared, 0
    shared = figures.get("Pss_Shmem", 0)
    reclaimable = figures.get("Pss_File", 0) + figures.get("LazyFree", 0)
    own = figures.get("Pss", 0) + figures.get("SwapPss", 0) - shared - reclaimable
    return own, shared


def _statm(pid: int) -> tuple[int, int]:
    """A process's resident memory, and how much of it belongs to files or is shared memory."""
    try:
        resident, shared = Path(f"/proc/{pid}/statm").read_bytes().split()[1:3]
    except (OSError, ValueError):
        return 0, 0
    return int(resident) * PAGE_BYTES, int(shared) * PAGE_BYTES


def same(kind: int, first: int, second: int) -> bool:
    """Whether two processes or threads share what KCMP_* names: their memory, as between a vfork
    and the exec, or their table of open files."""
    number = KCMP.get(os.uname().machine)
    return number is not None and _LIBC.syscall(number, first, second, kind, 0, 0) == 0


def _in_files(processes: Iterable[int]) -> int:
    """What these processes' files in memory take, without file systems that this process sees
    too."""
    mounts: dict[int, str] = {}
    memfds: dict[int, int] = {}
    for pid in processes:
        mounts = _memory_mounts(pid) | mounts
        with suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    file = os.stat(f"/proc/{pid}/fd/{name}")
                    if file.st_dev == _memfd_device():
                        memfds[file.st_ino] = file.st_blocks * 512
    taken = sum(memfds.values())
    seen_here = _memory_mounts(os.getpid())
    for device, path in mounts.items():
        if device in seen_here:
            continue
        with suppress(OSError):
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                # Another file system may be mounted over it.
                if os.fstat(folder).st_dev == device:
                    found = os.fstatvfs(folder)
                    taken += (found.f_blocks - found.f_bfree) * found.f_frsize
            finally:
                os.close(folder)
    return taken


def _memory_mounts(pid: int) -> dict[int, str]:
    """The tmpfs file systems that a process sees: device, and a path to it from here."""
    found: dict[int, str] = {}
    with suppress(OSError):
        for line in os.fsdecode(Path(f"/proc/{pid}/mountinfo").read_bytes()).splitlines():
            mount, _, source = line.partition(" - ")
            if source.startswith("tmpfs "):
                _, _, device, _, point, *_ = mount.split()
                major, minor = map(int, device.split(":"))
                found[os.makedev(major, minor)] = f"/proc/{pid}/root{point}"
    return found


@lru_cache
def _memfd_device() -> int:
    file = os.memfd_create("device", os.MFD_CLOEXEC)
    try:
        return os.fstat(file).st_dev
    finally:
        os.close(file)


def _figures(path: str) -> dict[str, int]:
    """The lines `name: number kB` of a table in /proc, in bytes; none if it can't be read."""
    figures = {}
    with suppress(OSError):
        for line in Path(path).read_bytes().decode("ascii", "replace").splitlines():
            name, _, value = line.partition(":")
            if value.endswith(" kB"):
                figures[name] = int(value[:-3]) * 1024
    return figures


LOOK_SECONDS = 0.1
LONGEST = 1.0
"""Longest time between measurements in seconds, since memory that one sandbox takes may have been
freed by others."""


@lru_cache
def memory_guard() -> ResourceGuard:
    if not os.path.exists("/proc/thread-self/children"):
        warnings.warn(
            "this kernel does not tell which processes a process has started "
            "(CONFIG_PROC_CHILDREN): `sandbox.memory_mb` limits each process of a local sandbox, "
            "not all together; use sandbox.backend: docker where that matters",
            stacklevel=2,
        )
    return ResourceGuard("memory-guard", available_bytes, LOOK_SECONDS, LONGEST)
