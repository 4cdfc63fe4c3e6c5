"""The processes that this one has started, and that they have."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def descendants(of: int | None = None) -> set[int]:
    """All living processes below one, by default this one; zombies are not among them."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            parent = _parent(folder)
            children.setdefault(parent, []).append(int(folder.name))
    found: set[int] = set()
    pending = children.get(os.getpid() if of is None else of, [])
    while pending:
        pid = pending.pop()
        found.add(pid)
        pending += children.get(pid, [])
    return found


def _parent(folder: Path) -> int:
    """The parent's number; -1 for a process that is gone or dead."""
    try:
        stat = (folder / "stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return -1
    state, parent = stat.rpartition(")")[2].split()[:2]
    return -1 if state in "ZX" else int(parent)


def ended(left: Callable[[], set[int]], seconds: float = 10.0) -> bool:
    """Whether there are none left before long: the kernel takes a moment to end a process."""
    deadline = time.monotonic() + seconds
    while left():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
