"""Any chart, drawn, with what its colours and marks stand for."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from eval.charts.bars import draw_bars
from eval.charts.points import MARKS, draw_points
from eval.charts.records import BarChart, Chart


@dataclass(frozen=True)
class Figure:
    """A drawn chart."""

    title: str
    drawing: Markup
    names: tuple[str, ...]
    """Of the series, in the order of their colours."""
    marks: tuple[str, ...] = ()
    """The series' marks as SVG paths; none for bars."""
    note: str = ""


def figure_of(chart: Chart) -> Figure:
    """The chart, drawn."""
    names = tuple(series.name for series in chart.series)
    if isinstance(chart, BarChart):
        return Figure(chart.title, draw_bars(chart), names, note=chart.note)
    return Figure(chart.title, draw_points(chart), names, MARKS, chart.note)
