"""The office as a worker's models and journals know it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray

from collect.errors import BudgetExhausted, ConfigError
from collect.models.budget import Slots


def _answered(call: Any) -> Any:
    """What the office answers to a call. Raises ConfigError where it has died: it kept what no
    rollout can do without."""
    try:
        return ray.get(call)
    except ray.exceptions.ActorDiedError as error:
        raise ConfigError(
            "the process beside the driver that keeps a run's dollars, its requests at once and "
            "its replies (ray::Office) has died; look at the memory of the driver's machine and "
            f"at Ray's logs there, and start again: the same command goes on. Ray says: {error}"
        ) from error


@dataclass(frozen=True)
class OfficeLimits:
    """The limits of a whole run. See `collect.models.budget.Limits`."""

    office: Any
    """The handle of the actor."""
    worker: str

    def check(self) -> None:
        reason = _answered(self.office.exhausted.remote())
        if reason is not None:
            raise BudgetExhausted(reason)

    def add(self, dollars: float) -> None:
        _answered(self.office.spent.remote(dollars))

    def note(self) -> None:
        _answered(self.office.note.remote())

    def slots(self, model: str, limit: int) -> Slots:
        return OfficeSlots(self.office, self.worker, model, limit)


@dataclass(frozen=True)
class OfficeSlots:
    """Requests at once to one model, of all workers."""

    office: Any
    worker: str
    model: str
    limit: int

    def acquire(self, *, timeout: float) -> bool:
        call = self.office.take.remote(self.model, self.limit, self.worker, timeout)
        return bool(_answered(call))

    def release(self) -> None:
        _answered(self.office.give_back.remote(self.model, self.worker))


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
