"""The charts of an evaluation, made of the numbers in its results.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from collect.questions.rows import VARIANT as QUESTIONS
from eval.charts.records import (
    Bar,
    BarChart,
    BarSeries,
    Chart,
    Point,
    PointChart,
    PointSeries,
)
from eval.labels import Labels
from eval.metrics import Arm
from eval.output import FORMAT_VERSION
from eval.report.figures import PERCENT, charts_of_figures

Row = Mapping[str, Any]
COSTS = {
    "main_steps": ("main steps", "average steps of the main agent"),
    "sub_steps": ("subagent steps", "average steps of subagents in rollouts that called one"),
    "tokens": ("tokens", "average tokens of all agents a rollout"),
    "dollars_per_rollout": ("dollars", "average dollars a rollout"),
}
"""What stands against the pass rate, by the arm's number: its short name, and its unit."""
ALONE_COSTS = {
    "steps": "average steps a question",
    "tokens": "average tokens a question",
    "seconds": "average seconds a question",
    "dollars_per_question": "average dollars a question",
}
"""What stands against the accuracy, by the model's number."""


def charts_of(folder: Path, labels: Labels) -> list[Chart]:
    """The charts of one folder of tables; none where it has no results of this version."""
    results = _results(folder / "results.json")
    figures = charts_of_figures(results.get("figures", ()))
    charts = [*figures, *_in_place(results, labels), *_alone(results, labels)]
    return [chart for chart in charts if _says_something(chart)]


def _in_place(results: Row, labels: Labels) -> Iterator[Chart]:
    arms = [row for row in results.get("arms", ()) if row["pass_rate"] is not None]
    for name, (short, unit) in COSTS.items():
        points = [(row, cost) for row in arms if (cost := _cost(row, name)) is not None]
        yield PointChart(
            f"Pass rate against {short}",
            unit,
            "pass rate in %",
            tuple(_arm_point(row, cost, labels) for row, cost in points),
            end=PERCENT,
        )
    if arms:
        yield _differences(results.get("comparisons", ()), labels)
        yield _gains(results.get("recovered_gain", ()), labels)


def _differences(rows: Iterable[Row], labels: Labels) -> BarChart:
    bars = tuple(
        Bar(
            f"{_side(row, 'first', labels)} - {_side(row, 'second', labels)}",
            row["difference"],
            row["low"],
            row["high"],
        )
        for row in rows
        if row["difference"] is not None
    )
    unit = "percentage points, with their interval"
    return BarChart("Differences of arms", unit, (BarSeries("first - second", bars),))


def _gains(rows: Iterable[Row], labels: Labels) -> BarChart:
    bars = tuple(
        Bar(_side(row, "small", labels), row["share"], row["low"], row["high"])
        for row in rows
        if row["share"] is not None
    )
    unit = "% of the frontier's gain over the baseline, with its interval"
    title = "Share of the frontier's gain that is recovered"
    return BarChart(title, unit, (BarSeries("in the frontier's place", bars),), PERCENT)


def _side(row: Row, side: str, labels: Labels) -> str:
    """One of the arms of a comparison."""
    names = ("variant", "main_model", "sub_model")
    arm = Arm(*(row[f"{side}_{name}"] for name in names))
    variant = "" if arm.variant == QUESTIONS else f"{labels.variant(arm.variant)}, "
    return f"{variant}{labels.models(arm, False)}"


def _cost(row: Row, name: str) -> float | None:
    if name != "tokens":
        value: float | None = row[name]
        return value
    parts = [row["main_tokens"], row["sub_tokens_all"]]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _arm_point(row: Row, cost: float, labels: Labels) -> PointSeries:
    name = f"{labels.variant(row['variant'])}, {_models(row, labels)}"
    point = Point(cost, row["pass_rate"], "", row["pass_low"], row["pass_high"])
    return PointSeries(name, (point,))


def _alone(results: Row, labels: Labels) -> Iterator[Chart]:
    models = [row for row in results.get("models", ()) if row["accuracy"] is not None]
    names = {row["model"]: _models(row | {"sub_model": row["model"]}, labels) for row in models}
    if models:
        yield _differences(results.get("comparisons", ()), labels)
        yield _gains(results.get("recovered_gain", ()), labels)
    for name, unit in ALONE_COSTS.items():
        known = [row for row in models if row[name] is not None]
        yield PointChart(
            f"Accuracy against {name.partition('_')[0]}",
            unit,
            "accuracy in %",
            tuple(_model_point(row, name, names) for row in known),
            end=PERCENT,
        )


def _model_point(row: Row, name: str, names: Mapping[str, str]) -> PointSeries:
    point = Point(row[name], row["accuracy"], "", row["accuracy_low"], row["accuracy_high"])
    return PointSeries(names[row["model"]], (point,))


def _models(row: Row, labels: Labels) -> str:
    arm = Arm("", row.get("main_model", ""), row["sub_model"])
    return labels.models(arm, row.get("scripted", False))


def _results(path: Path) -> Row:
    if not path.is_file():
        return {}
    found: Row = json.loads(path.read_text(encoding="utf-8"))
    return found if found.get("format_version") == FORMAT_VERSION else {}


def _says_something(chart: Chart) -> bool:
    """A rate of 0 says something; costs that are all 0, and a single point, do not."""
    if isinstance(chart, BarChart):
        values = [bar.value for series in chart.series for bar in series.bars]
        return any(values) or (chart.end == PERCENT and bool(values))
    points = [point for series in chart.series for point in series.points]
    return len(points) > 1 and any(point.x for point in points)
