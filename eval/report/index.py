"""The index: tables and charts of each stage, what all rollouts came to, and the way to each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from markupsafe import Markup

from eval.charts import draw, figures_of
from eval.figures import Figure, about
from eval.labels import Labels
from eval.markdown import table
from eval.report.facts import RolloutFacts, Source, Totals
from eval.report.rendering import render
from eval.report.tables import failures_table, html_of, outcomes_table
from eval.report.turns import Link

TABLES, FIGURES = "tables.md", "figures"
"""Where a stage keeps its tables, and the CSV files of its figures."""
TITLES = {"collect": "Collected", "eval": "In place", "questions": "Subagents alone"}
DATA = (".csv", ".json")


@dataclass(frozen=True)
class File:
    """A file beside the report."""

    name: str
    href: str


@dataclass(frozen=True)
class Part:
    """One stage's tables and charts."""

    title: str
    tables: Markup
    charts: tuple[Markup, ...]
    files: tuple[File, ...]


@dataclass(frozen=True)
class IndexRow:
    """One rollout, and where its pages are."""

    facts: RolloutFacts
    links: tuple[Link, ...]


@dataclass(frozen=True)
class ListedRow:
    """The same as the list shows it."""

    facts: RolloutFacts
    links: tuple[Link, ...]
    arm: str


@dataclass(frozen=True)
class IndexPage:
    """What the page is of."""

    title: str
    sources: Sequence[Source]
    output: Path
    """The report's folder, which links to the tables' files are relative to."""
    labels: Labels

    def text(self, totals: Totals, rows: Sequence[IndexRow]) -> str:
        """The whole page."""
        labels = self.labels
        parts = [part_of(source, self.output, labels) for source in self.sources]
        listed = [ListedRow(row.facts, row.links, arm_name(row.facts, labels)) for row in rows]
        failures = failures_table(totals.failures) if totals.failures else None
        return render(
            "index.html.j2",
            title=self.title,
            totals=totals,
            has_scripted=any(scripted for _, _, scripted, _ in totals.outcomes),
            parts=[part for part in parts if part is not None],
            outcomes=html_of(table(outcomes_table(totals, labels))),
            failures=html_of(table(failures)) if failures else None,
            rows=listed,
            with_category=any(row.facts.category for row in rows),
            filters=_filters(listed),
        )


def part_of(source: Source, output: Path, labels: Labels) -> Part | None:
    """The tables of one stage; None where it has none."""
    path = source.folder / TABLES
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    # Its own heading says no more than the part's.
    body = text.partition("\n")[2] if text.startswith("# ") else text
    return Part(
        TITLES[source.stage],
        html_of(body),
        tuple(map(chart_of, figures_of(source.folder, labels))),
        tuple(_files(source.folder, output)),
    )


def chart_of(figure: Figure) -> Markup:
    """A figure, drawn, with its title and note."""
    return Markup(
        render("chart.html.j2", title=figure.title, note=about(figure), drawing=draw(figure))
    )


def arm_name(facts: RolloutFacts, labels: Labels) -> str:
    """What the list calls an arm."""
    variant = labels.variant(facts.arm.variant)
    return f"{variant}, {labels.models(facts.arm, facts.scripted)}"


def _files(folder: Path, output: Path) -> Iterable[File]:
    """The tables as data. Linked by relative paths, so that the run's folder can be moved."""
    for path in (*sorted(folder.iterdir()), *sorted((folder / FIGURES).glob("*.csv"))):
        if path.suffix in DATA:
            yield File(path.name, quote(os.path.relpath(path, output)))


def _filters(rows: Sequence[ListedRow]) -> list[tuple[str, str, list[str]]]:
    """Name, label and options of each choice; without those that leave no choice."""
    values = {
        ("outcome", "Outcome"): [row.facts.outcome.value for row in rows],
        ("stage", "Stage"): [row.facts.stage for row in rows],
        ("arm", "Arm"): [row.arm for row in rows],
        ("category", "Category"): [row.facts.category for row in rows if row.facts.category],
    }
    options = {key: sorted(set(found)) for key, found in values.items()}
    return [(*key, found) for key, found in options.items() if len(found) > 1]
