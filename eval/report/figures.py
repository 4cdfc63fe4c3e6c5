"""The figures among an evaluation's results, as charts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eval.charts.records import Bar, BarChart, BarSeries, Chart, Point, PointChart, PointSeries

Row = Mapping[str, Any]
PERCENT = 100.0
SCATTER, STACKED = "scatter", "stacked"
"""Kinds of a figure; all others are bars side by side."""


def charts_of_figures(records: Iterable[Row]) -> list[Chart]:
    """A chart for each figure of the list `figures` in results.json; tables are passed over."""
    return [_chart(record) for record in records if "series" in record]


def _chart(figure: Row) -> Chart:
    title, unit = figure["title"], figure["y_label"]
    note = ". ".join(filter(None, (figure.get("source"), figure.get("note"))))
    end = PERCENT if unit.startswith("%") and figure["kind"] != STACKED else None
    if figure["kind"] == SCATTER:
        points = tuple(_points(figure["series"]))
        return PointChart(title, figure["x_label"], unit, points, end=end, note=note)
    series = tuple(
        BarSeries(
            each["name"],
            tuple(
                Bar(point["label"], point["value"], point["low"], point["high"])
                for point in each["points"]
                if point["value"] is not None
            ),
        )
        for each in figure["series"]
    )
    return BarChart(title, unit, series, end, stacked=figure["kind"] == STACKED, note=note)


def _points(series: Sequence[Row]) -> list[PointSeries]:
    """Each point on its own, so that its mark tells which it is."""
    several = len(series) > 1
    return [
        PointSeries(
            f"{each['name']}: {point['label']}" if several else point["label"],
            (Point(point["x"], point["value"], "", point["low"], point["high"]),),
        )
        for each in series
        for point in each["points"]
        if point["x"] is not None and point["value"] is not None
    ]
