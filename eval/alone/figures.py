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
    """Right answers by category, one series a model."""
    series = []
    for model in metrics:
        points = [
            Point(CATEGORY_TITLES[category], found.percent, found.low, found.high)
            for category in Category
            if (found := model.categories.get(category)) is not None
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
