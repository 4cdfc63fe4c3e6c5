"""How many patches it takes to resolve a bug (InspectCoder, figure 7)."""

from __future__ import annotations

from collections.abc import Sequence

from collect.records import Rollout
from eval.labels import Labels
from eval.metrics import percent
from eval.numbers import percentage
from eval.panels import Facts, Panel


def most_attempts(panel: Panel) -> int:
    """The most patches that any system tried on a bug; 0 where none tries patches."""
    rows = (row for system in panel.systems for row in system.rollouts)
    return max((row.patch_attempts for row in rows), default=0)


def resolved_within(rollouts: Sequence[Rollout], attempts: int) -> int | None:
    """How many rollouts resolved their bug with at most so many patches.

    None where no rollout counts its patches, so that nothing is known about it.
    """
    if not any(row.patch_attempts for row in rollouts):
        return None
    return sum(row.resolved and row.patch_attempts <= attempts for row in rollouts)


def attempts_table(panel: Panel, labels: Labels) -> list[list[str]]:
    """The cumulative resolve rate by the number of patches, one row a system."""
    counted = range(1, most_attempts(panel) + 1)
    rows = [["Method", *(f"≤ {attempts}" for attempts in counted)]]
    for system in panel.systems:
        rates = [_rate(system.rollouts, attempts) for attempts in counted]
        rows.append([labels.variant(system.variant), *(percentage(rate) for rate in rates)])
    return rows


def attempts_facts(panel: Panel) -> list[Facts]:
    """The same, one row a system and number of patches; systems that count none are left out."""
    return [
        panel.facts(system.variant)
        | {
            "patch_attempts": attempts,
            "resolved": resolved,
            "rollouts": len(system.rollouts),
            "resolve_rate": percent(resolved, len(system.rollouts)),
        }
        for system in panel.systems
        for attempts in range(1, most_attempts(panel) + 1)
        if (resolved := resolved_within(system.rollouts, attempts)) is not None
    ]


def _rate(rollouts: Sequence[Rollout], attempts: int) -> float | None:
    resolved = resolved_within(rollouts, attempts)
    return None if resolved is None else percent(resolved, len(rollouts))
