"""The disk as a whole: sandboxes that write more than they may are killed.

Neither bubblewrap nor an engine's usual storage can limit what all files of a sandbox take
together. So one thread looks at the disk's free space, which costs nothing, and measures the
sandboxes only once it has fallen a good deal.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path

from sandbox.errors import DiskExceeded, SandboxDead

LOOK_SECONDS = 0.5
LARGEST_STEP = 256 * 1024 * 1024
"""Bytes that the free space falls by before sandboxes are measured; less where one may write less
than four times as much."""
FILE_BYTES = 4096
"""That the smallest file counts as: a disk can be out of files as well."""


class DiskUse:
    """What the files of one sandbox take."""

    def __init__(
        self, limit_mb: int, written: Callable[[], int], kill: Callable[[], object]
    ) -> None:
        """`written` measures it in bytes, `kill` ends all that runs in the sandbox; both are
        called from another thread."""
        self._limit_mb = limit_mb
        self._written, self._kill = written, kill
        self.exceeded = False
        """Whether it was killed for it."""

    @property
    def limit(self) -> int:
        """Bytes."""
        return self._limit_mb * 1024 * 1024

    def check(self) -> None:
        """Measure it, and kill the sandbox where it is too much."""
        if not self.exceeded and self._written() > self.limit:
            self.exceeded = True
            self._kill()

    @contextmanager
    def named(self) -> Iterator[None]:
        """Raises DiskExceeded in place of another SandboxDead where that was the reason."""
        try:
            self.require()
            yield
        except SandboxDead:
            self.require()
            raise

    def require(self) -> None:
        """Raises DiskExceeded once the sandbox was killed for it."""
        if self.exceeded:
            raise DiskExceeded(
                f"the sandbox was killed: its files took more than {self._limit_mb} MB "
                "(`sandbox.disk_mb`)"
            )


class DiskGuard:
    """Of one process and one disk. Thread-safe."""

    def __init__(self, free: Callable[[], int]) -> None:
        """`free` is how many bytes the disk has left."""
        self._free = free
        self._watched: set[DiskUse] = set()
        self._changed = threading.Condition()
        self._most_free = 0
        self._thread: threading.Thread | None = None

    def watch(self, sandbox: DiskUse) -> None:
        """From now on, until `forget`."""
        with self._changed:
            self._watched.add(sandbox)
            if self._thread is None:
                self._most_free = self._free()
                self._thread = threading.Thread(target=self._watch, name="disk-guard", daemon=True)
                self._thread.start()
            self._changed.notify()

    def forget(self, sandbox: DiskUse) -> None:
        """It is closed, or was never watched."""
        with self._changed:
            self._watched.discard(sandbox)

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._watched)
                watched = list(self._watched)
            self._look(watched)
            threading.Event().wait(LOOK_SECONDS)

    def _look(self, watched: list[DiskUse]) -> None:
        free = self._free()
        self._most_free = max(self._most_free, free)
        step = min((LARGEST_STEP, *(sandbox.limit // 4 for sandbox in watched)))
        if self._most_free - free < step:
            return
        self._most_free = free
        for sandbox in watched:
            sandbox.check()


@lru_cache
def guard_of(folder: str) -> DiskGuard:
    """That of the disk which a folder is on."""
    return DiskGuard(lambda: free_bytes(folder))


def free_bytes(folder: str) -> int:
    """What the disk of a folder has left, its free files counted with; 0 where it is gone."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize + found.f_favail * FILE_BYTES


def bytes_below(folder: Path) -> int:
    """What all files below a folder take, while programs go on writing there."""
    total, folders = 0, [str(folder)]
    while folders:
        with suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                with suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    total += max(found.st_blocks * 512, FILE_BYTES)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
    return total
