"""Kill sandboxes whose processes or files as a whole take more memory or disk than they may.

For resources that the kernel limits only by process: control groups, which a program without root,
or in a container, can rarely use, would limit memory, and neither bubblewrap nor an engine's usual
storage can limit a disk. One thread per resource watches what the machine has left of it, which
costs nothing. It measures the sandboxes only once that has fallen a good deal, or after a while.

Memory counts what the kernel can't drop: private memory, swapped out or not, and shared memory with
files in memory (tmpfs, memfd). Each page counts once, however many processes share it. Does not
count mapped files, the kernel's own buffers and tables, and shared memory that no process maps or
has open.

Disk counts everything in a local sandbox's folder, however deep and whatever its modes, and files
that its processes hold open or mapped after their removal. Does not count data in sockets, nor what
a process holds that an ordinary user may not inspect.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
"""Of memory, all must be too large. One can be by mistake if processes end meanwhile: what they
shared then counts for those measured later. Of disk, all must be disturbed before a sandbox counts
as doing so on purpose."""
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
    """What these processes' files in memory take, without file systems mounted here too."""
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
PAUSE = 0.5
"""Seconds between measurements."""
ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
POINT_AT = ENTER | os.O_PATH
"""Opens a folder without the right to read it."""


def bytes_taken(folder: Path, roots: Iterable[int]) -> int:
    """Bytes of all files below a folder, and of deleted files that these processes and their
    descendants hold; sys.maxsize if they keep hiding files."""
    roots = list(roots)
    for attempt in range(MEASUREMENTS):
        time.sleep(PAUSE if attempt else 0)
        with suppress(_Hidden):
            named = _Walk(folder)
            return named.bytes + sum(_unnamed(roots, named.devices).values())
    return sys.maxsize


class _Hidden(Exception):
    """A folder was moved or closed during a measurement. By chance that is rare and short."""


@dataclass(frozen=True)
class _Folder:
    identity: tuple[int, int]
    closed_mode: int | None
    """Its original mode, if its owner may not read it and the walk made it readable."""
    inner: list[str]
    """Inner folders still to be entered."""


class _Walk:
    """Walks all folders below one with one open at a time: it enters inner folders, and goes back
    by `..`, so that paths beyond PATH_MAX need no more descriptors."""

    def __init__(self, root: Path) -> None:
        self.bytes = 0
        self.devices: set[int] = set()
        """The devices of the files found."""
        self._above: list[_Folder] = []
        try:
            self._at = os.open(root, POINT_AT)
        except FileNotFoundError:  # the sandbox was closed meanwhile
            return
        try:
            self._here = self._entered()
            while self._here.inner or self._above:
                if self._here.inner:
                    with _while_it_changes():
                        self._go(os.open(self._here.inner.pop(), POINT_AT, dir_fd=self._at))
                        self._above.append(self._here)
                        self._here = self._entered()
                else:
                    self._leave()
        finally:
            os.close(self._at)

    def _leave(self) -> None:
        outer = os.open("..", POINT_AT, dir_fd=self._at)
        if self._here.closed_mode is not None:
            os.chmod(f"/proc/self/fd/{self._at}", self._here.closed_mode)
        self._go(outer)
        self._here = self._above.pop()
        found = os.fstat(outer)
        if (found.st_dev, found.st_ino) != self._here.identity:
            raise _Hidden

    def _go(self, folder: int) -> None:
        os.close(self._at)
        self._at = folder

    def _entered(self) -> _Folder:
        """Count the folder's files, and make it readable to its owner if needed."""
        found = os.fstat(self._at)
        mode, closed_mode = found.st_mode & 0o7777, None
        if mode & 0o500 != 0o500 and found.st_uid == os.geteuid() != 0:
            os.chmod(f"/proc/self/fd/{self._at}", mode | 0o500)
            closed_mode = mode
        inner = []
        with _while_it_changes():
            listing = os.open(".", ENTER, dir_fd=self._at)
            try:
                with os.scandir(listing) as entries:
                    for entry in entries:
                        with suppress(FileNotFoundError):
                            file = entry.stat(follow_symlinks=False)
                            self.bytes += _size(file)
                            self.devices.add(file.st_dev)
                            if entry.is_dir(follow_symlinks=False):
                                inner.append(entry.name)
            finally:
                os.close(listing)
        return _Folder((found.st_dev, found.st_ino), closed_mode, inner)


@contextmanager
def _while_it_changes() -> Iterator[None]:
    """Ignore what was removed, or is no folder any more."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError as error:
        # A restricted root can't look into all folders; other users can open up their own.
        if os.geteuid() != 0:
            raise _Hidden from error
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise


def _unnamed(roots: list[int], devices: set[int]) -> dict[int, int]:
    """Deleted files on these devices that processes still hold: bytes by inode."""
    held: dict[int, int] = {}
    for process, parent in processes_below(roots).items():
        # Bubblewrap's two processes hold none, and can't be inspected while they start.
        if process not in roots and parent not in roots:
            add_deleted(process, devices, held)
    return held


def add_deleted(process: int, devices: set[int], held: dict[int, int]) -> None:
    """Add the deleted files on these devices that a process still holds: bytes by inode."""
    # Threads may have own open files. The first may have ended, which hides what it shared.
    different: list[int] = []
    with suppress(OSError):
        for thread in map(int, os.listdir(f"/proc/{process}/task")):
            if not any(same(KCMP_FILES, thread, other) for other in different):
                different.append(thread)
    for thread in different:
        folder = f"/proc/{process}/task/{thread}"
        for inode, size in (*_open(folder, devices), *_mapped(process, folder, devices)):
            held[inode] = max(size, held.get(inode, 0))


def _open(thread: str, devices: set[int]) -> Iterator[tuple[int, int]]:
    # Root may inspect every process. Others may not if the process forbids it, as the debugger's
    # supervisor does to keep its secrets from the program.
    with suppress(OSError):
        for name in os.listdir(f"{thread}/fd"):
            with suppress(OSError):
                found = os.stat(f"{thread}/fd/{name}")
                if found.st_nlink == 0 and found.st_dev in devices:
                    yield found.st_ino, _size(found)


def _mapped(process: int, thread: str, devices: set[int]) -> Iterator[tuple[int, int]]:
    lines: list[bytes] = []
    with suppress(OSError), open(f"{thread}/maps", "rb") as maps:
        lines = [line for line in maps if line.endswith(b" (deleted)\n")]
    for line in lines:
        area, _, offset, device, inode, _ = line.split(None, 5)
        start, end = (int(address, 16) for address in area.split(b"-"))
        try:
            found = os.stat(f"/proc/{process}/map_files/{start:x}-{end:x}")
        except OSError:
            # Only root may look there. Others at least see mapped files.
            major, minor = (int(number, 16) for number in device.split(b":"))
            if os.makedev(major, minor) in devices:
                yield int(inode), int(offset, 16) + end - start
        else:
            if found.st_nlink == 0 and found.st_dev in devices:
                yield found.st_ino, _size(found)


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
