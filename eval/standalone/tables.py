"""The tables and figures of subagents alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from collect.question_records import Category
from collect.questions.config import SOURCE_READER
from collect.store.run_store import RunStore
from eval.figures import Figure, Point, Record, Series
from eval.labels import Labels
from eval.markdown import notes, table
from eval.metrics import MISSING, Arm, counts, decimal, dollars, seconds, span, tokens
from eval.paired.report import PairedReport
from eval.paired.tables import paired_parts
from eval.qualitative.study import study
from eval.qualitative.tables import CATEGORY_TITLES, answer_records
from eval.standalone.metrics import Accuracy, AloneMetrics, ModelAnswers

SOURCE_READER_NAME = f"{SOURCE_READER} (runs nothing)"
COLUMNS: dict[str, Callable[[AloneMetrics], str]] = {
    "Questions": lambda m: str(m.questions),
    "Right": lambda m: str(m.accuracy.right) if m.accuracy else MISSING,
    "Accuracy %": lambda m: decimal(m.accuracy.percent) if m.accuracy else MISSING,
    "95 %": lambda m: span(m.accuracy.low, m.accuracy.high) if m.accuracy else MISSING,
    "Answer block %": lambda m: decimal(m.well_formed),
    "Grounded %": lambda m: decimal(m.grounded),
    "Valid calls %": lambda m: decimal(m.valid_calls),
    "Invalid": lambda m: _calls(m, m.invalid_calls),
    "Refused": lambda m: _calls(m, m.refused_calls),
    "Steps": lambda m: decimal(m.steps),
    "Tokens": lambda m: tokens(m.tokens),
    "Seconds": lambda m: seconds(m.seconds),
    "$ total": lambda m: dollars(m.dollars),
    "$/question": lambda m: dollars(m.dollars_per_question),
    "No verdict": lambda m: str(m.missing),
}
"""One entry per column of the table of models."""


@dataclass(frozen=True)
class AloneResults:
    """All results of subagents alone."""

    models: tuple[AloneMetrics, ...]
    paired: PairedReport = field(default_factory=PairedReport)
    notes: tuple[str, ...] = ()
    """Notes on this evaluation for readers."""


def models_table(models: Sequence[AloneMetrics], labels: Labels) -> list[list[str]]:
    """One row per model, header first."""
    rows = [["Model", *COLUMNS]]
    return rows + [[name_of(m, labels), *(text(m) for text in COLUMNS.values())] for m in models]


def categories_table(models: Sequence[AloneMetrics], labels: Labels) -> list[list[str]]:
    """One row per category, one column per model: accuracy in percent, with its interval."""
    rows = [["Category", "Questions", *(name_of(m, labels) for m in models)]]
    for category in Category:
        found = [m.categories.get(category) for m in models]
        asked = max((each.questions for each in found if each is not None), default=0)
        if asked:
            rows.append([category.value, str(asked), *(_accuracy(each) for each in found)])
    return rows


def alone_parts(results: AloneResults, labels: Labels) -> list[str]:
    """The Markdown of all results, part by part."""
    parts = [
        "## Subagents alone, on runtime questions",
        table(models_table(results.models, labels)),
        "### Accuracy by category",
        table(categories_table(results.models, labels)),
        notes(alone_notes(results, labels)),
    ]
    return [*parts, *paired_parts(results.paired, labels, heading="###")]


def alone_notes(results: AloneResults, labels: Labels) -> list[str]:
    """Notes for readers of the tables, one or two sentences per line."""
    lines = [
        "95 %: Wilson interval, clustered by bug. Answer block: answers in the form that the main "
        "agent reads; any other is wrong. Grounded: answers whose every claim their conversation "
        "had observed, of those that claim anything. Valid calls: neither invalid (no such tool or "
        "argument) nor refused (by the debugger's state or the tool limit). Steps, tokens, "
        "seconds: average a question.",
        "The source reader takes the nearest literal and never runs the program: what it gets "
        "right needs no debugger.",
    ]
    for each in results.models:
        if each.reasons:
            lines.append(f"Wrong, {name_of(each, labels)}: {counts(each.reasons)}.")
    if any(each.scripted for each in results.models):
        lines.append(
            "(scripted): the oracle is a scripted teacher that knows what is asked, though not the "
            "answer; its numbers are not a model's result."
        )
    return [*lines, *results.notes]


def alone_records(
    metrics: Sequence[AloneMetrics], answers: Sequence[ModelAnswers], folder: Path, labels: Labels
) -> list[Record]:
    """Accuracy by category, and figures on the answers and sessions in `folder`."""
    rollouts = [each.rollout for model in answers for each in model.answered if each.rollout]
    found = study(rollouts, RunStore(folder).read_conversations(), {})
    accuracy = accuracy_figure(metrics, labels)
    return [*([accuracy] if accuracy.series else []), *answer_records(found, labels)]


def accuracy_figure(metrics: Sequence[AloneMetrics], labels: Labels) -> Figure:
    """Right answers, over all questions and by category, one series per model."""
    series = []
    for model in metrics:
        rates = {"All": model.accuracy}
        rates |= {CATEGORY_TITLES[each]: model.categories.get(each) for each in Category}
        points = [
            Point(title, found.percent, found.low, found.high)
            for title, found in rates.items()
            if found is not None
        ]
        if points:
            series.append(Series(name_of(model, labels), tuple(points)))
    return Figure(
        "accuracy_by_category",
        "Accuracy by category",
        "The categories of Debug2Fix, table 3",
        "Category",
        "% right",
        tuple(series),
    )


def name_of(metrics: AloneMetrics, labels: Labels) -> str:
    """A model's name in the tables."""
    if metrics.is_source_reader:
        return SOURCE_READER_NAME
    return labels.models(Arm("", "", metrics.model), metrics.scripted)


def _calls(metrics: AloneMetrics, number: int) -> str:
    return MISSING if metrics.is_source_reader else f"{number} of {metrics.tool_calls}"


def _accuracy(found: Accuracy | None) -> str:
    return MISSING if found is None else f"{found.percent:.1f} ({span(found.low, found.high)})"
