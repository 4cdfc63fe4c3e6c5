"""The report's index: tables and charts of each stage, a summary of all rollouts, and links to
them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from collect.code.patches import TestFiles
from collect.console import visible
from collect.errors import ConfigError
from collect.question_records import Question
from collect.questions.grounding import (
    MAX_CHARACTERS,
    GroundedClaim,
    Grounding,
    answer_texts,
    ground,
)
from collect.questions.rows import VARIANT as QUESTIONS
from collect.rollouts.progress_bar import ProgressBar
from collect.store.atomic_files import write_text
from collect.store.records import Conversation, Rollout
from collect.store.run_store import RunStore
from eval.charts import draw, figures_of
from eval.figures import Figure, about
from eval.labels import Labels, in_order
from eval.report.facts import Outcome, RolloutFacts, Selection, Source, Totals, choose, outcome_of
from eval.report.questions import question_view, questions_of
from eval.report.rendering import GENERATOR, Link, Turn, render, turns_of
from eval.tables import table

# A conversation's answer, with each claim marked by its evidence.


LABELS, CAUSE = ("Answer", "Evidence", "Location"), "Cause"


@dataclass(frozen=True)
class Piece:
    """A part of a text."""

    text: str
    support: str = ""
    """The evidence of the claim; empty for text between claims."""


@dataclass(frozen=True)
class AnswerView:
    """An answer's fields, and the claims in them."""

    fields: tuple[tuple[str, tuple[Piece, ...]], ...]
    """Label and text."""
    grounding: Grounding


def answer_view(conversation: Conversation) -> AnswerView | None:
    """None if the conversation has no answer whose claims are checked."""
    told = answer_texts(conversation)
    labels = LABELS if conversation.answer is not None and len(told) > 1 else (CAUSE,)
    texts = [(label, text) for label, text in zip(labels, told, strict=False) if text]
    if not texts:
        return None
    grounding = ground(conversation, TestFiles())
    return AnswerView(
        tuple((label, tuple(marked(text, grounding.claims))) for label, text in texts), grounding
    )


def marked(text: str, claims: Sequence[GroundedClaim]) -> list[Piece]:
    """The text split at claims that it contains verbatim; longer claims come first."""
    supports = {
        needle: claim.grounded.value
        for claim in sorted(claims, key=lambda each: len(each.text))
        for needle in _needles(claim)
    }
    if not supports:
        return [Piece(text)]
    longest_first = sorted(supports, key=len, reverse=True)
    either = "|".join(map(re.escape, longest_first))
    pieces: list[Piece] = []
    done = 0
    for found in re.finditer(rf"(?<!\w)(?:{either})(?!\w)", text[:MAX_CHARACTERS]):
        pieces += [Piece(text[done : found.start()]), Piece(found[0], supports[found[0]])]
        done = found.end()
    return [piece for piece in (*pieces, Piece(text[done:])) if piece.text]


def _needles(claim: GroundedClaim) -> Iterable[str]:
    """Strings to search for: the claim itself, and for `name = value` also the value alone."""
    yield claim.text
    _, is_named, value = claim.text.partition(" = ")
    if is_named and value:
        yield value


# A patch's lines by kind.


MOST_LINES = 3_000
"""Limit for a patch in a page; the Parquet files have it whole."""
HEADS = ("diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "# ")
KINDS = {"+": "added", "-": "removed", "@": "hunk"}


@dataclass(frozen=True)
class PatchLine:
    """One line of a unified diff."""

    text: str
    kind: str
    """added, removed, hunk, head or same; the line's CSS class."""


@dataclass(frozen=True)
class PatchView:
    """A patch as a page shows it."""

    lines: tuple[PatchLine, ...]
    left_out: int
    """Number of lines not shown."""
    added: int
    removed: int


def patch_view(patch: str) -> PatchView:
    """The lines of a unified diff."""
    lines = patch.rstrip("\n").split("\n") if patch.strip() else []
    told = [PatchLine(line, _kind(line)) for line in lines]
    kinds = [line.kind for line in told]
    shown = tuple(told[:MOST_LINES])
    return PatchView(shown, len(told) - len(shown), kinds.count("added"), kinds.count("removed"))


def _kind(line: str) -> str:
    if line.startswith(HEADS):
        return "head"
    return KINDS.get(line[:1], "same")


# The tools that a conversation's model had.


@dataclass(frozen=True)
class ToolView:
    """A tool's description, as sent to the model."""

    name: str
    description: str
    parameters: tuple[str, ...]


def tools_of(sent: str) -> list[ToolView]:
    """The tools in OpenAI's format; empty for anything else."""
    try:
        return [_view(tool["function"]) for tool in json.loads(sent)]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


def _view(function: dict[str, object]) -> ToolView:
    parameters = function.get("parameters")
    known = parameters.get("properties") if isinstance(parameters, dict) else None
    names = tuple(map(str, known)) if isinstance(known, dict) else ()
    return ToolView(str(function["name"]), str(function.get("description", "")), names)


PLAIN_NAME = re.compile(r"\w[\w-]{0,100}", re.ASCII)
MOST_TESTS = 200
FAIL_TO_PASS = "fail_to_pass"


@dataclass(frozen=True)
class RolloutPages:
    """Contents of the pages of one rollout."""

    title: str
    """The report's title."""
    labels: Labels
    facts: RolloutFacts
    conversations: Sequence[Conversation]
    """In start order; empty if the rollout failed before the first."""
    outcome: str
    """HTML from `outcome_markup`."""
    question: Question | None
    """The runtime question that the rollout answers."""

    @property
    def links(self) -> tuple[Link, ...]:
        """Links to all pages, the one with the outcome first."""
        found = tuple(map(self._link, self.conversations))
        return found or (Link(self._file(self.facts.rollout_id), None, 0, 0),)

    def pages(self) -> Iterator[tuple[str, str]]:
        """File name and text of each page."""
        links = self.links
        if not self.conversations:
            yield links[0].page, render("conversation.html.j2", **self._common(0))
        for number, (conversation, link) in enumerate(zip(self.conversations, links, strict=False)):
            values = self._common(number) | self._values(conversation)
            yield link.page, render("conversation.html.j2", **values)

    def _common(self, number: int) -> dict[str, Any]:
        arm = self.facts.arm
        return {
            "title": self.title,
            "facts": self.facts,
            "variant": self.labels.variant(arm.variant),
            "models": self.labels.models(arm, self.facts.scripted),
            "conversations": self.links,
            "outcome": Markup(self.outcome) if number == 0 else None,
            "conversation": None,
            "question": None,
            "answer": None,
        }

    def _values(self, conversation: Conversation) -> dict[str, Any]:
        turns = turns_of(conversation, self._begun_by(conversation))
        told = _told(turns)
        asked = self.question
        rows = conversation.messages
        return {
            "conversation": conversation,
            "parent": self._parent(conversation),
            "question": question_view(asked, conversation.final_answer) if asked else None,
            "answer": answer_view(conversation),
            "task": turns[:told],
            "turns": turns[told:],
            "tools": tools_of(conversation.tools),
            "prompt_tokens": sum(row.prompt_tokens for row in rows),
            "completion_tokens": sum(row.completion_tokens for row in rows),
            "seconds": sum(row.seconds for row in rows),
            "dollars": sum(row.dollars for row in rows),
        }

    def _begun_by(self, conversation: Conversation) -> Mapping[str, Sequence[Link]]:
        children: dict[str, list[Link]] = defaultdict(list)
        for other in self.conversations:
            if other.parent_conversation_id == conversation.conversation_id:
                children[other.parent_call_id or ""].append(self._link(other))
        return children

    def _parent(self, conversation: Conversation) -> Link | None:
        wanted = conversation.parent_conversation_id
        found = [each for each in self.conversations if each.conversation_id == wanted]
        return self._link(found[0]) if wanted is not None and found else None

    def _link(self, conversation: Conversation) -> Link:
        page = self._file(conversation.conversation_id)
        return Link(page, conversation.role, conversation.index, conversation.steps)

    def _file(self, identity: str) -> str:
        # A collected rollout and an evaluated one can have the same ids.
        return f"{self.facts.stage}-{file_name(identity)}"


def outcome_markup(row: Rollout) -> str:
    """A rollout's outcome as HTML: tests that matter, patch, costs."""
    telling = [
        test for test in row.tests if test.group == FAIL_TO_PASS or test.before != test.after
    ]
    shown = telling[:MOST_TESTS]
    return render(
        "outcome.html.j2",
        row=row,
        outcome=outcome_of(row),
        shown_tests=shown,
        other_tests=len(row.tests) - len(shown),
        patch=patch_view(row.patch),
        is_question=row.variant == QUESTIONS,
    )


def file_name(identity: str) -> str:
    """The file name for a conversation's or rollout's id, which may come from a foreign file."""
    if PLAIN_NAME.fullmatch(identity):
        return f"{identity}.html"
    return f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.html"


def _told(turns: Sequence[Turn]) -> int:
    """Number of turns before the model's first."""
    return next((i for i, turn in enumerate(turns) if turn.step), len(turns))


# StepInto's Markdown tables as HTML, and the outcomes of a run's rollouts.


RULES = ("heading", "list", "table", "emphasis", "escape", "newline")
"""Only what the tables use: no links, images or HTML, whatever a model's name contains."""
NUMBER = re.compile(r"[-+$~≤<]?[\d.,]+(?:[%kMs]|ms)?(?: .*)?|-|undefined")


def html_of(markdown: str) -> Markup:
    """A Markdown page of tables as HTML, headings one level down, numeric columns right-aligned."""
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
    """The cells of each column of each table with their text, header first."""
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
    """Whether at least half of a column's non-empty cells, without the header, are numbers."""
    told = [cell.strip("*") for cell in cells[1:] if cell]
    numbers = sum(NUMBER.fullmatch(cell) is not None for cell in told)
    return bool(numbers) and 2 * numbers >= len(told)


def outcomes_table(totals: Totals, labels: Labels) -> list[list[str]]:
    """One row per arm, one column per outcome, header first."""
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
    """One row per failure, the most frequent first, below the header."""
    rows = [["Stage", "Failure", "Rollouts"]]
    return rows + [[*key, str(count)] for key, count in failures.most_common()]


def _scrolling(tokens: Sequence[Token]) -> list[Token]:
    """Wrap each table in a box that scrolls if the window is too narrow."""
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
"""Names of a stage's tables file, and of the folder with its figures' CSV files."""
TITLES = {"collect": "Collected", "eval": "In place", "questions": "Subagents alone"}
DATA = (".csv", ".json")


@dataclass(frozen=True)
class File:
    """A file next to the report."""

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
    """A rollout, and the paths of its pages."""

    facts: RolloutFacts
    links: tuple[Link, ...]


@dataclass(frozen=True)
class ListedRow:
    """A rollout as the list shows it."""

    facts: RolloutFacts
    links: tuple[Link, ...]
    arm: str


@dataclass(frozen=True)
class IndexPage:
    """The contents of the index page."""

    title: str
    sources: Sequence[Source]
    output: Path
    """The report's folder; links to table files are relative to it."""
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
    """The tables of one stage; None if it has none."""
    path = source.folder / TABLES
    if not path.is_file():
        return None
    text = path.read_text(encoding="utf-8")
    # Drop the file's heading, which repeats the part's.
    body = text.partition("\n")[2] if text.startswith("# ") else text
    return Part(
        TITLES[source.stage],
        html_of(body),
        tuple(map(chart_of, figures_of(source.folder, labels))),
        tuple(_files(source.folder, output)),
    )


def chart_of(figure: Figure) -> Markup:
    """A figure as a chart, with title and note."""
    return Markup(
        render("chart.html.j2", title=figure.title, note=about(figure), drawing=draw(figure))
    )


def arm_name(facts: RolloutFacts, labels: Labels) -> str:
    """An arm's name in the list."""
    variant = labels.variant(facts.arm.variant)
    return f"{variant}, {labels.models(facts.arm, facts.scripted)}"


def _files(folder: Path, output: Path) -> Iterable[File]:
    """The tables' data files, with relative links so that the run's folder can be moved."""
    for path in (*sorted(folder.iterdir()), *sorted((folder / FIGURES).glob("*.csv"))):
        if path.suffix in DATA:
            yield File(path.name, quote(os.path.relpath(path, output)))


def _filters(rows: Sequence[ListedRow]) -> list[tuple[str, str, list[str]]]:
    """Name, label and options of each filter, without filters that have only one option."""
    values = {
        ("outcome", "Outcome"): [row.facts.outcome.value for row in rows],
        ("stage", "Stage"): [row.facts.stage for row in rows],
        ("arm", "Arm"): [row.arm for row in rows],
        ("category", "Category"): [row.facts.category for row in rows if row.facts.category],
    }
    options = {key: sorted(set(found)) for key, found in values.items()}
    return [(*key, found) for key, found in options.items() if len(found) > 1]


# Write a report: first the pages of the selected rollouts, then the index with links to them.
#
# Layout of the folder::
#
#     index.html            tables, charts, and the list of conversations
#     conversations/*.html  one page per conversation
#
# Every page contains its own style, and fetches nothing. Rollouts and conversations are streamed:
# only a row of facts per shown rollout and the conversations of one rollout are in memory.


INDEX, PAGES = "index.html", "conversations"


@dataclass(frozen=True)
class ReportRequest:
    """What to report, and where to write it."""

    title: str
    sources: Sequence[Source]
    output: Path
    """The report's folder: a new one, or that of an earlier report."""
    selection: Selection = field(default_factory=Selection)
    questions: Sequence[Path] = ()
    """Files with the runtime questions that were answered, if they still exist."""
    labels: Labels = field(default_factory=Labels)


@dataclass(frozen=True)
class ReportPaths:
    """The written files."""

    index: Path
    pages: int
    rollouts: int
    """Rollouts with pages."""
    matching: int
    """Rollouts that match the selection, ignoring the limit."""


def write_report(request: ReportRequest) -> ReportPaths:
    """Write the pages, replacing an earlier report.

    Raises ConfigError if the folder holds anything else, or a table can't be read.
    """
    folder = request.output / PAGES
    _claim(request)
    chosen, totals = choose(request.sources, request.selection)
    questions = questions_of(chosen, request.questions)
    earlier = {path.name for path in folder.glob("*.html")}
    rows: dict[tuple[str, str], IndexRow] = {}
    written: set[str] = set()
    with ProgressBar("pages of rollouts", len(chosen)) as bar:
        for rollout in _rollouts(request, chosen, questions):
            for name, text in rollout.pages():
                (folder / name).write_text(text, encoding="utf-8")
                written.add(name)
            rows[_key(rollout.facts)] = IndexRow(rollout.facts, rollout.links)
            bar.advance()
    for name in earlier - written:
        (folder / name).unlink()
    listed = [rows[_key(facts)] for facts in chosen]
    index = request.output / INDEX
    index_of = IndexPage(request.title, request.sources, request.output, request.labels)
    write_text(index, index_of.text(totals, listed))
    return ReportPaths(index, len(written), len(chosen), totals.matching)


def _key(facts: RolloutFacts) -> tuple[str, str]:
    return facts.stage, facts.rollout_id


def _claim(request: ReportRequest) -> None:
    """Create the folder, with an index that says that the report is being written."""
    index = request.output / INDEX
    if request.output.exists() and (
        not request.output.is_dir() or (any(request.output.iterdir()) and not _is_report(index))
    ):
        raise ConfigError(
            f"{request.output} is no report of StepInto's; name a new folder for it with --output, "
            "or remove that one"
        )
    (request.output / PAGES).mkdir(parents=True, exist_ok=True)
    write_text(index, render("unfinished.html.j2", title=request.title))


def _is_report(index: Path) -> bool:
    return index.is_file() and GENERATOR in index.read_text(encoding="utf-8", errors="replace")


def _rollouts(
    request: ReportRequest,
    chosen: Sequence[RolloutFacts],
    questions: Mapping[str, Question],
) -> Iterator[RolloutPages]:
    """The page contents of each selected rollout, one by one."""
    for source in request.sources:
        facts = {each.rollout_id: each for each in chosen if each.stage == source.stage}
        if not facts:
            continue
        store = RunStore(source.folder)
        # Outcomes and conversations are in different order in their tables, so outcomes wait on
        # disk.
        with tempfile.TemporaryDirectory() as name:
            outcomes = Path(name)
            for row in store.read_rollouts(only=facts.keys()):
                path = outcomes / file_name(row.rollout_id)
                path.write_text(outcome_markup(row), encoding="utf-8")
            for rollout_id, conversations in _by_rollout(store, list(facts)):
                outcome = outcomes / file_name(rollout_id)
                yield RolloutPages(
                    request.title,
                    request.labels,
                    facts[rollout_id],
                    conversations,
                    outcome.read_text(encoding="utf-8"),
                    questions.get(rollout_id),
                )


def _by_rollout(
    store: RunStore, rollout_ids: Sequence[str]
) -> Iterator[tuple[str, list[Conversation]]]:
    """The conversations of each rollout, then rollouts without any."""
    missing = dict.fromkeys(rollout_ids)
    rows = store.read_conversations(only=missing.copy())
    for rollout_id, group in groupby(rows, lambda row: row.rollout_id):
        del missing[rollout_id]
        yield rollout_id, sorted(group, key=lambda row: row.index)
    for rollout_id in missing:
        yield rollout_id, []
