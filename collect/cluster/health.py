"""When a node rests because of what fails there, and when it is tried again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from collect.errors import OutOfDisk
from collect.faults import fault_named
from collect.records import Rollout
from sandbox.errors import (
    DiskExceeded,
    ImageMissing,
    OutOfMemory,
    SandboxDead,
    SandboxUnavailable,
)

IN_A_ROW = 3
"""Bugs whose rollouts fail by a node's fault before it rests. One bug alone says little: its image
may exist nowhere, or its rollouts kill their sandboxes."""
FIRST_REST, LONGEST_REST = 60.0, 900.0
"""Seconds; each rest is twice as long as the one before it."""
OF_A_NODE = (OutOfDisk, SandboxUnavailable, ImageMissing, SandboxDead)
OF_A_ROLLOUT = (OutOfMemory, DiskExceeded)
"""Those sandboxes that die on any node."""
SHOWN = 300
"""Characters of a reason."""


@dataclass
class Health:
    """Of one node. Not thread-safe. Times are in seconds, all of one clock."""

    reason: str | None = None
    """Why it rests, or did last; None once a rollout has not failed by its fault since."""
    until: float = 0.0
    """When the last rest ends, or has ended."""
    rest_seconds: float = 0.0
    """How long that is; 0 where there was none."""
    bugs: set[str] = field(default_factory=set)
    """The ids of those whose rollouts have failed so, since one has not."""

    def ended(self, fault: str | None, bug: str, began: float, now: float) -> bool:
        """A bug's rollout that began then has ended, by a fault of the node's or not; whether the
        node rests because of that."""
        if began < self.until:
            # It began before the rest, and says nothing about what came after it.
            return False
        if fault is None:
            self.reason, self.rest_seconds = None, 0.0
            self.bugs.clear()
            return False
        if bug in self.bugs:
            # It may be the bug's doing, and says nothing new: not after a rest either.
            return False
        self.bugs.add(bug)
        if len(self.bugs) < IN_A_ROW and self.reason is None:
            return False
        self.rest(fault, now)
        return True

    def rest(self, reason: str, now: float) -> None:
        """Do nothing for a while."""
        self.rest_seconds = min(2 * self.rest_seconds, LONGEST_REST) or FIRST_REST
        self.reason, self.until = reason, now + self.rest_seconds

    def room(self, under_way: Collection[float], most: int, now: float) -> bool:
        """Whether the node can be given a rollout beside those that began then, of `most` at once:
        after a rest one, until that has not failed by the node's fault."""
        if now < self.until or len(under_way) >= most:
            return False
        return self.reason is None or all(began < self.until for began in under_way)


def fault_of(row: Rollout) -> str | None:
    """Which fault of its node's may have ended a rollout; None where there is none."""
    fault = fault_named(row.failure_type)
    if fault is None or not issubclass(fault.error, OF_A_NODE):
        return None
    if issubclass(fault.error, OF_A_ROLLOUT):
        return None
    message, _, _ = (row.failure_message or "").partition("\n")
    return f"{row.failure_type}: {message[:SHOWN]}"
