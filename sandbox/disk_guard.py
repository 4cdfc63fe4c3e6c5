"""The disk as a whole: sandboxes that write more than they may are killed.

Neither bubblewrap nor an engine's usual storage can limit what all files of a sandbox take
together.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache

from sandbox.disk_use import FILE_BYTES
from sandbox.errors import DiskExceeded
from sandbox.guard import ResourceGuard, ResourceUse

LOOK_SECONDS = 0.5
LONGEST_SECONDS = 20.0
"""After which sandboxes are measured in any case: where others free as much of the disk as one
writes, what is left does not fall."""


class DiskUse(ResourceUse):
    """What the files of one sandbox take."""

    error = DiskExceeded
    told = "its files took more than {} MB (`sandbox.disk_mb`)"


class DiskGuard(ResourceGuard):
    """Of one process and one disk. Thread-safe."""

    def __init__(self, free: Callable[[], int]) -> None:
        """`free` is how many bytes the disk has left."""
        super().__init__("disk-guard", free, LOOK_SECONDS, LONGEST_SECONDS)


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
