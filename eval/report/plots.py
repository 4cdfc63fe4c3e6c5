"""The figures of an evaluation that its report draws, made of the numbers in its results.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from collect.questions.rows import VARIANT as QUESTIONS
from eval.figures import Figure, FigureKind, Point, Series
from eval.labels import Labels
from eval.metrics import Arm
from eval.output import FORMAT_VERSION

Row = dict[str, Any]
RATES = {
    "pass": ("pass_rate", "Pass rate", "% of rollouts"),
    "accuracy": ("accuracy", "Accuracy", "% right"),
}
"""By the beginning of its interval's columns: its own column, title and unit."""
COSTS = (
    ("main_steps", "main steps", "average steps of the main agent"),
    ("sub_steps", "subagent steps", "average steps of subagents in rollouts that called one"),
    ("tokens", "tokens", "average tokens of all agents a rollout"),
    ("dollars_per_rollout", "dollars", "average dollars a rollout"),
)
"""What stands against the pass rate: the column of the arms, its short name, and its unit."""
ALONE_COSTS = (
    ("steps", "steps", "average steps a question"),
    ("tokens", "tokens", "average tokens a question"),
    ("seconds", "seconds", "average seconds a question"),
    ("dollars_per_question", "dollars", "average dollars a question"),
)
"""What stands against the accuracy, of the models."""
FIGURES = TypeAdapter(tuple[Figure, ...])


def figures_of(folder: Path, labels: Labels) -> list[Figure]:
    """The figures of one folder of tables; none if it has no results of this version."""
    results = _results(folder / "results.json")
    records = [record for record in results.get("figures", ()) if "series" in record]
    arms = {_arm(row, labels): row | {"tokens": _tokens(row)} for row in results.get("arms", ())}
    models = {_model(row, labels): row for row in results.get("models", ())}
    figures = [
        *FIGURES.validate_python(records),
        *(_against(*cost, "pass", arms) for cost in COSTS),
        *(_against(*cost, "accuracy", models) for cost in ALONE_COSTS),
        _differences(results.get("comparisons", ()), labels),
        _gains(results.get("recovered_gain", ()), labels),
    ]
    return [figure for figure in figures if _says_something(figure)]


def _results(path: Path) -> Row:
    if not path.is_file():
        return {}
    found: Row = json.loads(path.read_text(encoding="utf-8"))
    return found if found.get("format_version") == FORMAT_VERSION else {}


def _against(cost: str, name: str, unit: str, rate: str, rows: Mapping[str, Row]) -> Figure:
    """A rate by what it cost."""
    value, title, of = RATES[rate]
    points = tuple(
        Point(label, row[value], row[f"{rate}_low"], row[f"{rate}_high"], row[cost])
        for label, row in rows.items()
    )
    title = f"{title} against {name}"
    return _figure(title, of, points, x_label=unit, kind=FigureKind.SCATTER)


def _differences(rows: Sequence[Row], labels: Labels) -> Figure:
    points = tuple(
        Point(
            f"{_side(row, 'first', labels)} - {_side(row, 'second', labels)}",
            row["difference"],
            row["low"],
            row["high"],
        )
        for row in rows
    )
    unit = "percentage points, with their interval"
    return _figure("Differences of arms", unit, points, name="first - second")


def _gains(rows: Sequence[Row], labels: Labels) -> Figure:
    points = tuple(
        Point(_side(row, "small", labels), row["share"], row["low"], row["high"]) for row in rows
    )
    title = "Share of the frontier's gain that is recovered"
    unit = "% of the frontier's gain over the baseline, with its interval"
    return _figure(title, unit, points, name="in the frontier's place")


def _figure(
    title: str,
    y_label: str,
    points: tuple[Point, ...],
    *,
    x_label: str = "",
    kind: FigureKind = FigureKind.BARS,
    name: str = "",
) -> Figure:
    """A figure of one series, which stands in no paper."""
    return Figure(title, title, "", x_label, y_label, (Series(name, points),), kind)


def _side(row: Row, side: str, labels: Labels) -> str:
    """One of the arms of a comparison."""
    arm = Arm(*(row[f"{side}_{name}"] for name in ("variant", "main_model", "sub_model")))
    models = labels.models(arm, False)
    return models if arm.variant == QUESTIONS else f"{labels.variant(arm.variant)}, {models}"


def _arm(row: Row, labels: Labels) -> str:
    arm = Arm(row["variant"], row["main_model"], row["sub_model"])
    return f"{labels.variant(arm.variant)}, {labels.models(arm, row['scripted'])}"


def _model(row: Row, labels: Labels) -> str:
    return labels.models(Arm(QUESTIONS, "", row["model"]), row["scripted"])


def _tokens(row: Row) -> float | None:
    parts = [row["main_tokens"], row["sub_tokens_all"]]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _says_something(figure: Figure) -> bool:
    """A rate of 0 says something; costs that are all 0, and a single point, do not."""
    points = [p for series in figure.series for p in series.points if p.value is not None]
    if figure.kind is FigureKind.SCATTER:
        placed = [point.x for point in points if point.x is not None]
        return len(placed) > 1 and any(placed)
    return any(p.value for p in points) or (figure.is_percent and bool(points))
