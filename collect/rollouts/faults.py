"""The consequences of each failure: who retries, how often, how the rollout ends, and when the run
gives up. docs/failures.md shows the same table."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from collect import errors
from collect.errors import FailureKind, RolloutError
from collect.quantities import counted
from collect.store.records import Rollout
from sandbox import errors as of_sandbox

REQUEST = "the request, with growing waits"
OUTAGE = f"{REQUEST}, then as an outage"
INVALID = f"{REQUEST}, unless a call is unreadable"
ENGINE = "opening the sandbox, for `sandbox.engine_wait` seconds"
FETCH = "on a cluster fetching it, `images.max_retries` times"
PULL = "fetching it, for `images.pull_limit_wait` seconds"
ROOM = "fetching it, once another rollout of the node has ended"
BUILD = "the build, once, unless its time was up"
NODES = "on other nodes, `runner.ray.tries` in all"
NOTHING = "-"


@dataclass(frozen=True)
class Fault:
    """One type of failure."""

    error: type[Exception]
    means: str
    retried: str = NOTHING
    """What is retried within a start before the rollout fails."""
    goes_on: bool = False
    """Whether the models' replies are kept, so that the next start resumes there."""
    models_if_again: bool = False
    """Whether the failure is attributed to the model if the same rollout, started again, ends with
    this or a similar failure."""

    @property
    def name(self) -> str:
        """The name in rows."""
        return self.error.__name__

    @property
    def kind(self) -> FailureKind:
        """Whom the failure is attributed to. The next start repeats all but the model's own."""
        if issubclass(self.error, RolloutError):
            return self.error.kind
        return FailureKind.INFRASTRUCTURE


_resumed, _repeated_once = partial(Fault, goes_on=True), partial(Fault, models_if_again=True)
FAULTS: Sequence[Fault] = (
    # Each type in `collect.errors` and `sandbox.errors` that can end a rollout, as rows name it.
    Fault(errors.ModelFailure, "the model can't go on"),
    Fault(errors.ContextTooLong, "the conversation is longer than the model can read"),
    Fault(errors.ContentRefused, "the server refused the content, or withheld the reply"),
    _resumed(errors.EndpointDown, "the model's server is silent or broken", OUTAGE),
    _resumed(errors.RateLimited, "the server wants fewer requests", OUTAGE),
    _resumed(
        errors.InvalidReply,
        "the reply is no chat completion, or has a call that can't be read",
        INVALID,
    ),
    _resumed(
        errors.EndpointFailure,
        "the server refused: key, address, quota, a setting that it does not know",
    ),
    _resumed(errors.LocalModelFailed, "a model of this process broke down"),
    _resumed(errors.BudgetExhausted, "`runner.budget_dollars` is spent"),
    _resumed(errors.NodeLost, "the machine or process that did it is gone", NODES),
    _resumed(errors.OutOfDisk, "the disk is full"),
    Fault(errors.RowRefused, "the result holds a value that can't be stored"),
    Fault(errors.InfrastructureFailure, "the bug's tests can't be used"),
    _resumed(of_sandbox.EngineDown, "the container engine does not answer", ENGINE),
    _resumed(of_sandbox.SandboxUnavailable, "the sandbox can't be opened as configured"),
    _resumed(of_sandbox.ImageMissing, "the bug's image is not there", FETCH),
    _resumed(of_sandbox.PullLimited, "the registry allows no more downloads for now", PULL),
    _resumed(
        of_sandbox.NoRoomForImage, "`images.disk_gb` leaves no room for the bug's image", ROOM
    ),
    _resumed(
        of_sandbox.BuildFailure,
        "a build for scoring did not end in time, or fails without the patch too",
        BUILD,
    ),
    _repeated_once(of_sandbox.SandboxDead, "the sandbox was killed, or its engine"),
    _resumed(of_sandbox.NotStarted, "the container engine could not start a command"),
    _repeated_once(of_sandbox.OutOfMemory, "the sandbox was killed at `sandbox.memory_mb`"),
    _repeated_once(of_sandbox.DiskExceeded, "the sandbox was killed at `sandbox.disk_mb`"),
    Fault(of_sandbox.SandboxFileError, "a file of the sandbox can't be read"),
    Fault(of_sandbox.FileTooLarge, "a file of the sandbox is too large to be read"),
    Fault(of_sandbox.CommandRefused, "a command has an argument that no program accepts"),
    Fault(of_sandbox.DebuggerError, "the debugger itself broke down"),
)


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
