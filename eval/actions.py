"""Which actions the systems use, and how often (InspectCoder, section 4.4 and figure 8)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from collect.store.records import Rollout
from eval.labels import Labels
from eval.metrics import percent, percentage, ratio
from eval.panels import Facts, Panel

ALL = "all actions"
PAPER_ORDER = ("set_breakpoint", "control_execution", "interact_code", "propose_repair")
OUTCOMES: Mapping[str, Callable[[Rollout], bool]] = {
    "all": lambda row: True,
    "solved": lambda row: row.resolved,
    "unsolved": lambda row: not row.resolved,
}


@dataclass(frozen=True)
class Frequency:
    """How often one action was called."""

    calls: int
    per_task: float | None
    """Average per rollout; None if there are no rollouts."""
    share: float | None
    """Percent of all calls; None if there are none."""


def call_counts(rollouts: Sequence[Rollout]) -> Counter[str]:
    """Number of calls by action, and of all actions under `ALL`.

    An action with several kinds, `interact_code/inspection` and `interact_code/modification`, also
    has its sum, `interact_code`.
    """
    counts: Counter[str] = Counter()
    for row in rollouts:
        for action, calls in json.loads(row.actions).items():
            names = {ALL, action, action.partition("/")[0]}
            counts.update(dict.fromkeys(names, calls))
    return counts


def frequencies(rollouts: Sequence[Rollout]) -> dict[str, dict[str, Frequency]]:
    """By outcome and action: over all rollouts, and over those that did and did not resolve their
    bug; empty if no rollout has an action.

    The actions are those of all rollouts, after `ALL`, with the paper's first in its order.
    """
    actions = sorted(call_counts(rollouts), key=_place)
    chosen = {
        outcome: [row for row in rollouts if belongs(row)] for outcome, belongs in OUTCOMES.items()
    }
    return {outcome: _frequencies(rows, actions) for outcome, rows in chosen.items() if actions}


def actions_table(panel: Panel, labels: Labels) -> list[list[str]]:
    """One row per system and action: calls per task, and share of all calls, by outcome.

    Systems without actions are left out.
    """
    heads = [head for outcome in OUTCOMES for head in (f"{outcome}: a task", "share")]
    rows = [["Method", "Action", *heads]]
    for system in panel.systems:
        name = labels.variant(system.variant)
        found = frequencies(system.rollouts)
        for action in found.get("all", ()):
            cells = [text for outcome in OUTCOMES for text in _cells(found[outcome][action])]
            rows.append([name, _indented(action), *cells])
            name = ""
    return rows


def actions_facts(panel: Panel) -> list[Facts]:
    """The same numbers, one row per system, outcome and action."""
    return [
        panel.facts(system.variant)
        | {
            "outcome": outcome,
            "action": action,
            "calls": frequency.calls,
            "per_task": frequency.per_task,
            "share": frequency.share,
        }
        for system in panel.systems
        for outcome, by_action in frequencies(system.rollouts).items()
        for action, frequency in by_action.items()
    ]


def _frequencies(rollouts: Sequence[Rollout], actions: Sequence[str]) -> dict[str, Frequency]:
    counts = call_counts(rollouts)
    return {
        action: Frequency(
            counts[action],
            counts[action] / len(rollouts) if rollouts else None,
            percent(counts[action], counts[ALL]),
        )
        for action in actions
    }


def _place(action: str) -> tuple[bool, int, str]:
    """Sort key of an action: the sum of all first, those not in the paper last."""
    name = action.partition("/")[0]
    known = PAPER_ORDER.index(name) if name in PAPER_ORDER else len(PAPER_ORDER)
    return (action != ALL, known, action)


def _indented(action: str) -> str:
    name, _, kind = action.partition("/")
    return f"- {kind}" if kind else name


def _cells(frequency: Frequency) -> tuple[str, str]:
    return ratio(frequency.per_task), percentage(frequency.share)
