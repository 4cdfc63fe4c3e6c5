"""When nothing works any more."""

from __future__ import annotations

import threading

from collect.errors import FailureKind
from collect.quantities import counted
from collect.store.records import Rollout


class CircuitBreaker:
    """Notices that too many in a row have failed. Thread-safe."""

    def __init__(self, limit: int, what: str = "rollout") -> None:
        """`what` is one of those that it counts."""
        self._what = what
        self.gave_up: str | None = None
        """What kept failing, once it did too often."""
        self._limit = limit
        self._count = 0
        self._lock = threading.Lock()

    def too_many(self, row: Rollout) -> bool:
        """Count a finished rollout; whether it is time to give up."""
        failed = row.failure_kind is FailureKind.INFRASTRUCTURE
        return self.count(row.failure if failed else None)

    def count(self, reason: str | None) -> bool:
        """Count one that failed for a reason, or did not; whether it is time to give up."""
        with self._lock:
            self._count = 0 if reason is None else self._count + 1
            if self._count >= self._limit and self.gave_up is None:
                failed = f"{counted(self._count, self._what)} in a row failed"
                self.gave_up = f"{failed}, the last with {reason}"
            return self.gave_up is not None
