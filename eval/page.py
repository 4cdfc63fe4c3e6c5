"""The tables as text: for a terminal, and as a whole page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from eval.actions import actions_table
from eval.attempts import attempts_table, pairs_table, sets_table
from eval.figures import Record
from eval.figures import parts as record_parts
from eval.labels import Labels
from eval.metrics import Comparison
from eval.paired.report import PairedReport
from eval.paired.tables import paired_parts
from eval.panels import Panel, is_repair
from eval.repair_tables import by_benchmark, models_table, repair_foot, repair_table
from eval.tables import FLAT_NOTE, flat_table, foot, notes, paper_table, table

TableOf = Callable[[Panel, Labels], list[list[str]]]
SECTIONS: dict[str, tuple[str, tuple[TableOf, ...]]] = {
    "Resolve rate by number of patch attempts": (
        "Resolved with at most so many patches. -: the system does not count them.",
        (attempts_table,),
    ),
    "Actions": (
        "Calls a rollout and their share of all calls: over all rollouts, and over those that did "
        "and did not resolve their bug. Systems without actions are left out.",
        (actions_table,),
    ),
    "Overlap of the solved bugs": (
        "Solved: by any rollout. Only it: by none of the others. Of the others': its share of what "
        "they solved. The ablations of InspectCoder are among the others, and in the sets, only "
        "where there is nothing else to compare.",
        (pairs_table, sets_table),
    ),
}
"""InspectCoder's figures 7, 8 and 6 by title: a note, and tables of every panel."""


def all_notes(comparison: Comparison, labels: Labels, panels: Sequence[Panel] = ()) -> list[str]:
    """Notes for readers of the tables, one or two sentences per line."""
    repair = repair_foot(panels, labels) if panels else []
    return [*repair, *foot(comparison, labels)]


def summary(
    comparison: Comparison,
    labels: Labels,
    panels: Sequence[Panel] = (),
    paired: PairedReport | None = None,
) -> str:
    """The papers' tables for the present systems, their notes, and the paired comparisons, as
    Markdown that is aligned in a terminal.

    Debug2Fix's variants are in its table, the others in InspectCoder's.
    """
    parts = [*_debug2fix_parts(comparison, labels, panels), *_repair_parts(panels, labels)]
    parts.append(notes(all_notes(comparison, labels, panels)))
    parts += paired_parts(paired, labels) if paired else []
    return "\n\n".join(parts) + "\n"


def markdown(
    comparison: Comparison,
    labels: Labels,
    panels: Sequence[Panel] = (),
    title: str = "Evaluation",
    *,
    paired: PairedReport | None = None,
    records: Sequence[Record] = (),
) -> str:
    """All tables as one page."""
    parts = [f"# {title}", summary(comparison, labels, panels, paired).rstrip()]
    for heading, (note, tables) in SECTIONS.items():
        found = [part for panel in panels for part in _panel_parts(panel, tables, labels)]
        parts += [f"## {heading}", note, *found] if found else []
    parts += record_parts(records)
    parts += ["## Every arm", FLAT_NOTE, table(flat_table(comparison, labels))]
    return "\n\n".join(parts) + "\n"


def _debug2fix_parts(comparison: Comparison, labels: Labels, panels: Sequence[Panel]) -> list[str]:
    arms = tuple(m for m in comparison.arms if not is_repair(m.arm.variant))
    if panels and not arms:
        return []
    return [table(paper_table(replace(comparison, arms=arms), labels))]


def _repair_parts(panels: Sequence[Panel], labels: Labels) -> list[str]:
    parts = []
    for group in by_benchmark(panels):
        for panel in group:
            parts += [f"## Repair: {panel.title(labels)}", table(repair_table(panel, labels))]
        if len(group) > 1:
            parts += [f"## By model: {group[0].benchmark_name}", table(models_table(group, labels))]
    return parts


def _panel_parts(panel: Panel, tables: Iterable[TableOf], labels: Labels) -> list[str]:
    """The tables of one panel below its title, without empty ones."""
    found = [rows for make in tables if len(rows := make(panel, labels)) > 1]
    return [f"### {panel.title(labels)}", *map(table, found)] if found else []
