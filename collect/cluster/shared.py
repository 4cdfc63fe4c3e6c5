"""The office as a worker's models and journals know it."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import ray

from collect.errors import BudgetExhausted, ConfigError
from collect.models.budget import Slots


def _answered(call: Any) -> Any:
    """What the office answers to a call. Raises ConfigError where it has died, or can't write to
    the run folder: it keeps what no rollout can do without."""
    try:
        return ray.get(call)
    except ray.exceptions.ActorDiedError as error:
        raise ConfigError(
            "the process beside the driver that keeps a run's dollars, its requests at once and "
            "its replies (ray::Office) has died; look at the memory of the driver's machine and "
            f"at Ray's logs there, and start again: the same command goes on. Ray says: {error}"
        ) from error
    except ray.exceptions.RayTaskError as error:
        if not isinstance(error.cause, OSError):
            raise
        raise ConfigError(
            f"the run folder can't be written to on the driver: {error.cause}; fix that, and "
            "start again: the same command goes on"
        ) from error


class OfficeLimits:
    """The limits of a whole run. See `collect.models.budget.Limits`."""

    def __init__(self, office: Any, worker: str) -> None:
        """`office` is the handle of the actor."""
        self._office, self._worker = office, worker
        self._spent, self._lock = 0.0, threading.Lock()

    def check(self) -> None:
        reason = _answered(self._office.exhausted.remote())
        if reason is not None:
            raise BudgetExhausted(reason)

    def add(self, dollars: float) -> None:
        with self._lock:
            self._spent += dollars
            spent = self._spent
        _answered(self._office.spent.remote(self._worker, spent))

    def note(self) -> None:
        _answered(self._office.note.remote())

    def slots(self, model: str, limit: int) -> Slots:
        return OfficeSlots(self._office, self._worker, model, limit)


@dataclass(frozen=True)
class OfficeSlots:
    """Requests at once to one model, of all workers."""

    office: Any
    worker: str
    model: str
    limit: int
    held: list[str] = field(default_factory=list)
    """The tokens of those taken; any one will do to give one back."""

    def acquire(self, *, timeout: float) -> bool:
        token = uuid4().hex
        call = self.office.take.remote(self.model, self.limit, self.worker, token, timeout)
        taken = bool(_answered(call))
        if taken:
            self.held.append(token)
        return taken

    def release(self) -> None:
        _answered(self.office.give_back.remote(self.model, self.held.pop()))


@dataclass(frozen=True)
class OfficeJournal:
    """The journal of a rollout. See `collect.models.journal.JournalText`."""

    office: Any
    rollout_id: str

    def read(self) -> str | None:
        text: str | None = _answered(self.office.replies.remote(self.rollout_id))
        return text

    def add(self, text: str) -> None:
        _answered(self.office.add_replies.remote(self.rollout_id, text))

    def replace(self, text: str | None) -> None:
        _answered(self.office.replace_replies.remote(self.rollout_id, text))


@dataclass(frozen=True)
class OfficeLog:
    """The log of a rollout. See `collect.watching.log_lines.LogText`."""

    office: Any
    rollout_id: str

    def add(self, text: str) -> None:
        with suppress(ray.exceptions.RayError):
            ray.get(self.office.add_log.remote(self.rollout_id, text))
