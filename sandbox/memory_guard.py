"""The memory as a whole: local sandboxes whose processes take more than they may are killed.

The kernel limits what many processes take together by control groups alone, which a program that
is not root, or lives in a container itself, is rarely given.
"""

from __future__ import annotations

import os
import warnings
from functools import lru_cache

from sandbox.errors import OutOfMemory
from sandbox.guard import ResourceGuard, ResourceUse
from sandbox.process_memory import available_bytes

LOOK_SECONDS = 0.1
LONGEST = 1.0
"""Seconds between two measurements: what a sandbox takes may be what others gave back."""


class MemoryUse(ResourceUse):
    """What the processes of one local sandbox take."""

    error = OutOfMemory
    told = "its processes took more than {} MB of memory together (`sandbox.memory_mb`)"


@lru_cache
def memory_guard() -> ResourceGuard:
    """That of this machine."""
    if not os.path.exists("/proc/thread-self/children"):
        warnings.warn(
            "this kernel does not tell which processes a process has started "
            "(CONFIG_PROC_CHILDREN): `sandbox.memory_mb` limits each process of a local sandbox, "
            "not all together; use sandbox.backend: docker where that matters",
            stacklevel=2,
        )
    return ResourceGuard("memory-guard", available_bytes, LOOK_SECONDS, LONGEST)
