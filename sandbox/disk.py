"""Measure the disk space of a local sandbox's files, including hidden ones, and kill sandboxes that
write more than they may. Neither bubblewrap nor an engine's usual storage can limit their total.

Counts everything in its folder, however deep and whatever its modes, and files that its processes
hold open or mapped after their removal. Does not count data in sockets, nor what a process holds
that an ordinary user may not inspect.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sandbox.guard import ResourceGuard
from sandbox.memory import KCMP_FILES, processes_below, same

FILE_BYTES = 4096
"""The least that a file counts as, since a disk can also run out of files."""
MEASUREMENTS = 3
"""All must be disturbed before a sandbox counts as doing so on purpose."""
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
        if process in roots or parent in roots:
            continue
        # Threads may have open files of their own. The first thread may have ended, which hides
        # what it shared.
        different: list[int] = []
        with suppress(OSError):
            for thread in map(int, os.listdir(f"/proc/{process}/task")):
                if not any(same(KCMP_FILES, thread, other) for other in different):
                    different.append(thread)
        for thread in different:
            folder = f"/proc/{process}/task/{thread}"
            for inode, size in (*_open(folder, devices), *_mapped(process, folder, devices)):
                held[inode] = max(size, held.get(inode, 0))
    return held


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


LOOK_SECONDS = 0.5
LONGEST_SECONDS = 20.0
"""Sandboxes are measured at least this often: if others free as much of the disk as one writes,
free space does not fall."""


def disk_guard(free: Callable[[], int]) -> ResourceGuard:
    """A guard of a disk with so many free bytes."""
    return ResourceGuard("disk-guard", free, LOOK_SECONDS, LONGEST_SECONDS)


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
