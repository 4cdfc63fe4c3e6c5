"""Stops a run in which everything fails."""

from __future__ import annotations

import threading

from collect.errors import FailureKind
from collect.quantities import counted
from collect.store.records import Rollout


class CircuitBreaker:
    """Opens after too many failures in a row. Thread-safe."""

    def __init__(self, limit: int, what: str = "rollout") -> None:
        """`what` names the things counted, in the singular."""
        self._limit, self._what, self._count = limit, what, 0
        self.gave_up: str | None = None
        """What kept failing, once the breaker is open."""
        self._lock = threading.Lock()

    def too_many(self, row: Rollout) -> bool:
        """Count a finished rollout; returns whether to give up."""
        failed = row.failure_kind is FailureKind.INFRASTRUCTURE
        return self.count(row.failure if failed else None)

    def count(self, reason: str | None) -> bool:
        """Count a failure by its reason, or a success (None); returns whether to give up."""
        with self._lock:
            self._count = 0 if reason is None else self._count + 1
            if self._count >= self._limit and self.gave_up is None:
                failed = f"{counted(self._count, self._what)} in a row failed"
                self.gave_up = f"{failed}, the last with {reason}"
            return self.gave_up is not None
