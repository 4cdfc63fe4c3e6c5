"""A contamination report as a table for a terminal, and as files."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from collect.durable import write_text
from collect.quantities import counted
from format.card import markdown_table
from format.contamination.report import BugOverlap, ContaminationReport, Shared

SHOWN_BUGS = 15
SHOWN_IN_FILE = 200
HEADER = ("bug", "repository", "same", "problem", "patch", "seen first in")


def report_tables(report: ContaminationReport) -> tuple[Table, ...]:
    """The counts, and the bugs with the largest shares where there are any."""
    counts = Table("of the benchmark", "bugs", title=_title(report))
    for name, count in report.counts().items():
        counts.add_row(name, str(count))
    found = [bug for bug in report.worst if bug.in_training]
    if not found:
        return (counts,)
    worst = Table(*HEADER, title="the largest shares")
    for column in worst.columns:
        column.overflow = "fold"
    for bug in found[:SHOWN_BUGS]:
        worst.add_row(*_cells(bug))
    return counts, worst


def totals(report: ContaminationReport) -> str:
    """The shares over all bugs, in a line."""
    return (
        f"{report.ngram_words}-grams in the training data: {_percent(report.problem)} of the "
        f"problems, {_percent(report.patch)} of the patches"
    )


def write_report(report: ContaminationReport, stem: Path) -> tuple[Path, Path]:
    """Write `STEM.json`, with every bug, and `STEM.md`."""
    paths = stem.with_name(f"{stem.name}.json"), stem.with_name(f"{stem.name}.md")
    stem.parent.mkdir(parents=True, exist_ok=True)
    write_text(paths[0], report.model_dump_json(indent=1) + "\n")
    write_text(paths[1], _markdown(report))
    return paths


def _markdown(report: ContaminationReport) -> str:
    counts = [[name, f"{count:,}"] for name, count in report.counts().items()]
    shown = f" (the {SHOWN_IN_FILE} largest)" if len(report.bugs) > SHOWN_IN_FILE else ""
    parts = [
        f"# {_title(report)}",
        f"Training data: {', '.join(report.training)}; {counted(report.rows, 'row')}.",
        f"{totals(report)}.",
        markdown_table(["of the benchmark", "bugs"], counts),
        f"## Bugs by share{shown}",
        markdown_table(list(HEADER), [_cells(bug) for bug in report.worst[:SHOWN_IN_FILE]]),
    ]
    return "\n\n".join(parts) + "\n"


def _title(report: ContaminationReport) -> str:
    names = ", ".join(sorted({bug.benchmark for bug in report.bugs}))
    bugs, rows = counted(len(report.bugs), "bug"), counted(report.rows, "training row")
    return f"{bugs} of {names} against {rows}"


def _cells(bug: BugOverlap) -> list[str]:
    kinds = {"id": bug.same_id, "hash": bug.same_hash, "commit": bug.same_commit}
    same = [
        name for name, is_same in {**kinds, "repository": bug.same_repository}.items() if is_same
    ]
    larger = max(bug.problem, bug.patch, key=lambda part: part.share or 0.0)
    shares = (_share(bug.problem), _share(bug.patch))
    return [bug.instance_id, bug.repository, ", ".join(same), *shares, larger.first_in]


def _share(part: Shared) -> str:
    return "too short" if part.share is None else f"{part.share:.0%}"


def _percent(part: Shared) -> str:
    return "none" if part.share is None else f"{part.share:.1%} ({part.shared:,} of {part.of:,})"
