"""The consequences of each failure for its rollout, and when the run gives up. docs/failures.md has
the same table, with what each means and what is retried before the rollout fails."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from collect import errors
from collect.errors import FailureKind, RolloutError
from collect.quantities import counted
from collect.store.records import Rollout
from sandbox import errors as of_sandbox
from sandbox.errors import SandboxError

BASES = (RolloutError, SandboxError)
FAULTS: Mapping[str, type[Exception]] = {
    name: each
    for module in (errors, of_sandbox)
    for name, each in vars(module).items()
    if isinstance(each, type) and issubclass(each, BASES) and each not in BASES
}
"""Each type that can end a rollout, by its name in rows."""
RESUMED = frozenset(
    {
        *("EndpointDown", "RateLimited", "InvalidReply", "EndpointFailure", "RequestRefused"),
        *("LocalModelFailed", "BudgetExhausted", "NodeLost", "OutOfDisk", "EngineDown"),
        "SandboxUnavailable",
        *("ImageMissing", "PullLimited", "NoRoomForImage", "BuildFailure", "NotStarted"),
    }
)
"""Types after which the models' replies are kept, so that the next start resumes there. If the
sandbox died, its own calls may have killed it, so the rollout starts from the beginning."""
BROKE_SANDBOX = frozenset({"SandboxDead", "OutOfMemory", "DiskExceeded", "DebuggerError"})
"""Types for which the rollout's own calls or patch may be responsible."""


def attribute_failure(row: Rollout, earlier: Rollout | None) -> Rollout:
    """Attribute the failure in a finished rollout's row; `earlier` is its row from an earlier
    failure. A sandbox may die once by chance. If it dies again after the model acted in it, the
    failure is the model's; otherwise a model could void each of its failures."""
    if earlier is None:
        return row
    both = (row, earlier)
    again = all(e.failure_type in BROKE_SANDBOX and e.main_steps + e.sub_steps > 0 for e in both)
    same = len({(each.config_hash, each.instance_hash) for each in both}) == 1
    return replace(row, failure_kind=FailureKind.MODEL) if again and same else row


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
