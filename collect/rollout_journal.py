"""Rollouts that go on where they were, after a stop, a kill, or a failure of the endpoint's."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from collect.errors import BudgetExhausted, InfrastructureFailure
from collect.models.journal import FOLDER, Journal, journaled
from collect.records import Rollout
from collect.rollout import RolloutSettings, RolloutSpec

GOES_ON = (InfrastructureFailure.__name__, BudgetExhausted.__name__)
"""Failures after which a rollout's replies are worth keeping. Where its sandbox failed, it may have
been its calls that broke that."""


@dataclass(frozen=True)
class RolloutJournal:
    """The replies in one rollout, kept until it has a row that stays."""

    journal: Journal

    @classmethod
    def of(cls, folder: Path, spec: RolloutSpec, settings_hash: str) -> RolloutJournal:
        """The journal in a folder of rollouts."""
        path = folder / FOLDER / f"{spec.id}.jsonl"
        return cls(Journal(path, f"{settings_hash} {spec.instance.hash}"))

    def kept(self, settings: RolloutSettings) -> RolloutSettings:
        """The same settings, with models whose replies are kept here."""
        return replace(settings, players=journaled(settings.players, self.journal))

    def has_row(self, row: Rollout) -> None:
        """Forget the replies, unless the next start goes on with them."""
        if row.failure_type not in GOES_ON:
            self.journal.remove()
