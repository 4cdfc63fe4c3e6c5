"""The index: tables and charts of each stage, what all rollouts came to, and the way to each."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from collect.console import visible
from eval.charts import draw, figures_of
from eval.figures import Figure, about
from eval.labels import Labels, in_order
from eval.markdown import table
from eval.report.facts import Outcome, RolloutFacts, Source, Totals
from eval.report.rendering import render
from eval.report.turns import Link

# Markdown tables of StepInto's own as HTML, and what a run's rollouts came to.


RULES = ("heading", "list", "table", "emphasis", "escape", "newline")
"""All that the tables use. No links, no images and no HTML, whatever a model's name holds."""
NUMBER = re.compile(r"[-+$~≤<]?[\d.,]+(?:[%kMs]|ms)?(?: .*)?|-|undefined")


def html_of(markdown: str) -> Markup:
    """The Markdown of a page of tables, one heading level down, columns of numbers to the right."""
    parser = MarkdownIt("zero").enable(list(RULES))
    tokens = parser.parse(visible(markdown))
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1:]) + 1)}"
    for cells in _columns(tokens):
        if _is_numeric([text for _, text in cells]):
            for cell, _ in cells:
                cell.attrSet("class", "number")
    return Markup(parser.renderer.render(_scrolling(tokens), parser.options, {}))


def _columns(tokens: Sequence[Token]) -> Iterator[list[tuple[Token, str]]]:
    """The cells of each column of each table, its head first, with their text."""
    columns: dict[int, list[tuple[Token, str]]] = defaultdict(list)
    place = 0
    for token, after in pairwise([*tokens, _html("")]):
        if token.type == "tr_open":
            place = 0
        if token.type in ("th_open", "td_open"):
            columns[place].append((token, after.content))
            place += 1
        if token.type == "table_close":
            yield from columns.values()
            columns.clear()


def _is_numeric(cells: Sequence[str]) -> bool:
    """Whether half of a column's cells or more, below the head, are numbers; empty ones aside."""
    told = [cell.strip("*") for cell in cells[1:] if cell]
    numbers = sum(NUMBER.fullmatch(cell) is not None for cell in told)
    return bool(numbers) and 2 * numbers >= len(told)


def outcomes_table(totals: Totals, labels: Labels) -> list[list[str]]:
    """One row an arm, one column an outcome, the header first."""
    seen = [each for each in Outcome if any(key[3] is each for key in totals.outcomes)]
    rows = [["Stage", "Variant", "Models", "Rollouts", *(each.value for each in seen)]]
    arms = list(dict.fromkeys(key[:3] for key in totals.outcomes))
    order = in_order(arm.variant for _, arm, _ in arms)
    for stage, arm, scripted in sorted(arms, key=lambda key: (key[0], order.index(key[1].variant))):
        counts = [totals.outcomes[stage, arm, scripted, each] for each in seen]
        names = [stage, labels.variant(arm.variant), labels.models(arm, scripted)]
        rows.append([*names, str(sum(counts)), *map(str, counts)])
    return rows


def failures_table(failures: Counter[tuple[str, str]]) -> list[list[str]]:
    """One row a failure, the most frequent first; the header first."""
    rows = [["Stage", "Failure", "Rollouts"]]
    return rows + [[*key, str(count)] for key, count in failures.most_common()]


def _scrolling(tokens: Sequence[Token]) -> list[Token]:
    """Each table in a box of its own, which scrolls where the window is too narrow."""
    found: list[Token] = []
    for token in tokens:
        if token.type == "table_open":
            found.append(
                _html('<div class="scroll plain" tabindex="0" role="region" aria-label="Table">')
            )
        found.append(token)
        if token.type == "table_close":
            found.append(_html("</div>"))
    return found


def _html(text: str) -> Token:
    return Token("html_block", "", 0, content=text)


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
