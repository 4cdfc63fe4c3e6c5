"""Write a report: the pages of the chosen rollouts, then the index that leads to them.

Layout of its folder::

    index.html            tables, charts, and the list of conversations
    conversations/*.html  one page a conversation

Every page carries its own style, and nothing is fetched from anywhere. Rollouts and conversations
are streamed: what is held at once is a row of facts for each rollout that is shown, and the
conversations of one rollout.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from collect.errors import ConfigError
from collect.question_records import Question
from collect.rollouts.progress_bar import ProgressBar
from collect.store.atomic_files import write_text
from collect.store.records import Conversation
from collect.store.run_store import RunStore
from eval.labels import Labels
from eval.report.conversations import RolloutPages, file_name, outcome_markup
from eval.report.facts import RolloutFacts, Selection, Source, choose
from eval.report.index import IndexPage, IndexRow
from eval.report.questions import questions_of
from eval.report.rendering import GENERATOR, render

INDEX, PAGES = "index.html", "conversations"


@dataclass(frozen=True)
class ReportRequest:
    """What a report is of, and where it goes."""

    title: str
    sources: Sequence[Source]
    output: Path
    """Its folder: a new one, or an earlier report's."""
    selection: Selection = field(default_factory=Selection)
    questions: Sequence[Path] = ()
    """Files with the runtime questions that were answered, as far as they are still there."""
    labels: Labels = field(default_factory=Labels)


@dataclass(frozen=True)
class ReportPaths:
    """What was written."""

    index: Path
    pages: int
    rollouts: int
    """Those that have pages."""
    matching: int
    """Rollouts that the selection names, the limit aside."""


def write_report(request: ReportRequest) -> ReportPaths:
    """Write the pages, in place of an earlier report's.

    Raises ConfigError where the folder holds anything else, or a table can't be read.
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
    """Make the folder, with an index that says what is going on."""
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
    """What the pages of each chosen rollout show, one after the other."""
    for source in request.sources:
        facts = {each.rollout_id: each for each in chosen if each.stage == source.stage}
        if not facts:
            continue
        store = RunStore(source.folder)
        # Outcomes and conversations lie in tables of different order: the former wait on the disk.
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
    """The conversations of each rollout, then the rollouts without any."""
    missing = dict.fromkeys(rollout_ids)
    rows = store.read_conversations(only=missing.copy())
    for rollout_id, group in groupby(rows, lambda row: row.rollout_id):
        del missing[rollout_id]
        yield rollout_id, sorted(group, key=lambda row: row.index)
    for rollout_id in missing:
        yield rollout_id, []
