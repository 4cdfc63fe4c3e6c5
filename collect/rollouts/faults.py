"""The consequences of each failure for its rollout, and when the run gives up. docs/failures.md has
the same table, with what each means and what is retried before the rollout fails."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from collect import errors
from collect.errors import FailureKind
from collect.quantities import counted
from collect.store.records import Rollout
from sandbox import errors as of_sandbox


@dataclass(frozen=True)
class Fault:
    """One type of failure."""

    error: type[Exception]
    goes_on: bool = False
    """Whether the models' replies are kept, so that the next start resumes there."""
    models_if_again: bool = False
    """Whether the failure is attributed to the model if the same rollout, started again, ends with
    this or a similar failure."""

    @property
    def name(self) -> str:
        """The name in rows."""
        return self.error.__name__


_resumed, _repeated_once = partial(Fault, goes_on=True), partial(Fault, models_if_again=True)
FAULTS: Sequence[Fault] = (
    Fault(errors.ModelFailure),
    Fault(errors.ContextTooLong),
    Fault(errors.ContentRefused),
    _resumed(errors.EndpointDown),
    _resumed(errors.RateLimited),
    _resumed(errors.InvalidReply),
    _resumed(errors.EndpointFailure),
    _resumed(errors.LocalModelFailed),
    _resumed(errors.BudgetExhausted),
    _resumed(errors.NodeLost),
    _resumed(errors.OutOfDisk),
    Fault(errors.RowRefused),
    Fault(errors.InfrastructureFailure),
    _resumed(of_sandbox.EngineDown),
    _resumed(of_sandbox.SandboxUnavailable),
    _resumed(of_sandbox.ImageMissing),
    _resumed(of_sandbox.PullLimited),
    _resumed(of_sandbox.NoRoomForImage),
    _resumed(of_sandbox.BuildFailure),
    _repeated_once(of_sandbox.SandboxDead),
    _resumed(of_sandbox.NotStarted),
    _repeated_once(of_sandbox.OutOfMemory),
    _repeated_once(of_sandbox.DiskExceeded),
    Fault(of_sandbox.SandboxFileError),
    Fault(of_sandbox.FileTooLarge),
    Fault(of_sandbox.CommandRefused),
    Fault(of_sandbox.DebuggerError),
)
"""Each type in `collect.errors` and `sandbox.errors` that can end a rollout."""


def fault_named(failure_type: str | None) -> Fault | None:
    """The fault for a row's `failure_type`, or None."""
    return next((fault for fault in FAULTS if fault.name == failure_type), None)


def goes_on(failure_type: str | None) -> bool:
    """Whether the next start resumes a rollout with this failure. If the sandbox died, its own
    calls may have killed it, so the rollout starts from the beginning."""
    fault = fault_named(failure_type)
    return fault is not None and fault.goes_on


def broke_sandbox(failure_type: str | None) -> bool:
    """Whether the rollout's own calls or patch may have ended its sandbox."""
    fault = fault_named(failure_type)
    return fault is not None and fault.models_if_again


def attribute_failure(row: Rollout, earlier: Rollout | None) -> Rollout:
    """Attribute the failure in a finished rollout's row; `earlier` is its row from an earlier
    failure. A sandbox may die once by chance. If it dies again after the model acted in it, the
    failure is the model's; otherwise a model could void each of its failures."""
    if earlier is None:
        return row
    both = (row, earlier)
    again = all(broke_sandbox(e.failure_type) and e.main_steps + e.sub_steps > 0 for e in both)
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
