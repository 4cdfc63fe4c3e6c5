"""Figures of subagents alone, and what is wrong with their answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collect.questions.records import Category
from collect.store import RunStore
from eval.alone.metrics import AloneMetrics, ModelAnswers
from eval.alone.tables import name_of
from eval.figures import Figure, Point, Record, Series
from eval.labels import Labels
from eval.qualitative.session_tables import answer_records
from eval.qualitative.study import study
from eval.qualitative.tables import CATEGORY_TITLES


def alone_records(
    metrics: Sequence[AloneMetrics], answers: Sequence[ModelAnswers], folder: Path, labels: Labels
) -> list[Record]:
    """Accuracy by category, and the answers and sessions that `folder` has."""
    rollouts = [each.rollout for model in answers for each in model.answered if each.rollout]
    found = study(rollouts, RunStore(folder).read_conversations(), {})
    accuracy = accuracy_figure(metrics, labels)
    return [*([accuracy] if accuracy.series else []), *answer_records(found, labels)]


def accuracy_figure(metrics: Sequence[AloneMetrics], labels: Labels) -> Figure:
    """Right answers, of all questions and by category, one series a model."""
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
