"""Rollouts that go on where they were, after a stop, a kill, or a failure of the endpoint's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from collect.errors import BudgetExhausted, InfrastructureFailure
from collect.models.journal import FOLDER, Journal, journaled
from collect.records import Rollout
from collect.rollout import RolloutSettings, RolloutSpec

GOES_ON = (InfrastructureFailure.__name__, BudgetExhausted.__name__)
"""Failures after which a rollout's replies are worth keeping. Where its sandbox failed, it may have
been its calls that broke that."""


def journal_of(folder: Path, spec: RolloutSpec, settings_hash: str) -> Journal:
    """Where the replies in a rollout are kept until it has a row that stays."""
    return Journal(_path(folder, spec.id), f"{settings_hash} {spec.instance.hash}")


def kept(settings: RolloutSettings, journal: Journal) -> RolloutSettings:
    """The same settings, with models whose replies are kept."""
    return replace(settings, players=journaled(settings.players, journal))


def forget_replies(folder: Path, row: Rollout) -> None:
    """Of a rollout that has its row, unless the next start goes on with them."""
    if row.failure_type not in GOES_ON:
        _path(folder, row.rollout_id).unlink(missing_ok=True)


def _path(folder: Path, rollout_id: str) -> Path:
    return folder / FOLDER / f"{rollout_id}.jsonl"
