"""How far a model agrees with the rules, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from eval.figures import Cell, Table
from eval.qualitative.agreement import agreement
from eval.qualitative.judge import LABELS, NONE, Judged, JudgeReport
from eval.qualitative.samples import Kind

WHAT = {Kind.QUESTION: "Categories of questions", Kind.FAILURE: "Failure modes"}
SOURCES = {Kind.QUESTION: "Beside Debug2Fix, table 3", Kind.FAILURE: "Beside Debug2Fix, table 4"}


def agreement_records(report: JudgeReport) -> list[Table]:
    """The agreement, and for each kind of thing which labels were given by whom."""
    by_kind = {kind: [j for j in report.judged if j.item.kind is kind] for kind in Kind}
    confusions = [_confusion(kind, report.model, found) for kind, found in by_kind.items()]
    return [_agreement(report, by_kind), *(each for each in confusions if each.rows)]


def _agreement(report: JudgeReport, by_kind: Mapping[Kind, Sequence[Judged]]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for kind, judged in by_kind.items():
        pairs = _pairs(judged)
        found = agreement(pairs)
        kappa = None if found.kappa is None else f"{found.kappa:.2f}"
        numbers = (found.items, found.percent, found.low, found.high, kappa)
        rows.append((WHAT[kind], *numbers, len(judged) - len(pairs)))
    left = f" {report.missing} have no reply yet." if report.missing else ""
    return Table(
        "judge_agreement",
        f"Agreement of the rules with {report.model}",
        "Beside Debug2Fix, tables 3 and 4, which were sorted by hand",
        ("What", "Items", "Agree %", "95 % from", "to", "Cohen's kappa", "Unreadable"),
        tuple(rows),
        "Of a sample drawn by chance. Unreadable: replies that are not one known label, which are "
        f"not among the items.{left}",
    )


def _confusion(kind: Kind, model: str, judged: Sequence[Judged]) -> Table:
    """Labels by the rules down, by the model across."""
    pairs = _pairs(judged)
    counts = Counter(pairs)
    known = [*LABELS[kind]]
    down = sorted({rules for rules, _ in pairs}, key=known.index)
    across = sorted({label for _, label in pairs}, key=known.index)
    return Table(
        f"judge_{kind.value}s",
        f"{WHAT[kind]}: by the rules, and by {model}",
        SOURCES[kind],
        ("By the rules", *across),
        tuple((rules, *(counts[rules, label] for label in across)) for rules in down),
    )


def _pairs(judged: Sequence[Judged]) -> list[tuple[str, str]]:
    return [(j.item.by_rules or NONE, j.label) for j in judged if j.label is not None]
