"""The office as a worker's models and journals know it."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray

from collect.errors import BudgetExhausted
from collect.models.budget import Slots

POLL_SECONDS = 0.05


@dataclass(frozen=True)
class OfficeLimits:
    """The limits of a whole run. See `collect.models.budget.Limits`."""

    office: Any
    """The handle of the actor."""
    worker: str

    def check(self) -> None:
        reason = ray.get(self.office.exhausted.remote())
        if reason is not None:
            raise BudgetExhausted(reason)

    def add(self, dollars: float) -> None:
        ray.get(self.office.spent.remote(dollars))

    def note(self) -> None:
        ray.get(self.office.note.remote())

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
        until = time.monotonic() + timeout
        while not ray.get(self.office.take.remote(self.model, self.limit, self.worker)):
            if time.monotonic() >= until:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def release(self) -> None:
        ray.get(self.office.give_back.remote(self.model, self.worker))


@dataclass(frozen=True)
class OfficeJournal:
    """The journal of a rollout. See `collect.models.journal.JournalText`."""

    office: Any
    rollout_id: str

    def read(self) -> str | None:
        text: str | None = ray.get(self.office.replies.remote(self.rollout_id))
        return text

    def add(self, text: str) -> None:
        ray.get(self.office.add_replies.remote(self.rollout_id, text))

    def replace(self, text: str | None) -> None:
        ray.get(self.office.replace_replies.remote(self.rollout_id, text))


@dataclass(frozen=True)
class OfficeLog:
    """The log of a rollout. See `collect.watching.log_lines.LogText`."""

    office: Any
    rollout_id: str

    def add(self, text: str) -> None:
        with suppress(ray.exceptions.RayError):
            ray.get(self.office.add_log.remote(self.rollout_id, text))
