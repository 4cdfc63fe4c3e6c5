"""Markdown tables of StepInto's own as HTML, and what a run's rollouts came to."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from collect.visible import visible
from eval.labels import Labels, in_order
from eval.report.facts import Outcome, Totals

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
