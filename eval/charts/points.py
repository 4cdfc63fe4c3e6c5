"""Points over two axes, with intervals, perhaps joined to lines."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from markupsafe import Markup

from eval.charts.records import Point, PointChart
from eval.charts.scales import Scale, number, scale_over
from eval.charts.svg import colour, drawing, label, shape, text_of, tooltip

WIDTH, HEIGHT = 640.0, 320.0
LEFT, RIGHT, TOP, BOTTOM = 58.0, 24.0, 12.0, 50.0
MARKS = (
    "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0",
    "M-5-5h10v10h-10z",
    "M0-6 6 5h-12z",
    "M0-7 6 0 0 7-6 0z",
    "M0 6-6-5h12z",
)
"""Circle, square, triangle, diamond, triangle: a series can be told without its colour."""


def draw_points(chart: PointChart) -> Markup:
    """The chart as SVG."""
    points = [point for series in chart.series for point in series.points]
    ends = [end for point in points for end in (point.low, point.high) if end is not None]
    across = scale_over(point.x for point in points)
    up = scale_over([*(point.y for point in points), *ends], chart.end)
    root = drawing(f"{chart.title}: {chart.y_unit} by {chart.x_unit}", WIDTH, HEIGHT)
    _axes(root, chart, across, up)
    for index, series in enumerate(chart.series):
        if chart.joined:
            line = " ".join(f"{_x(across, p.x):.1f},{_y(up, p.y):.1f}" for p in series.points)
            shape(root, "polyline", f"joined {colour(index)}", points=line)
        for point in series.points:
            x, y = _x(across, point.x), _y(up, point.y)
            told = _interval(root, point, x, up)
            place = f"translate({x:.1f} {y:.1f})"
            mark = MARKS[index % len(MARKS)]
            drawn = shape(root, "path", colour(index), d=mark, transform=place)
            tooltip(
                drawn, f"{series.name} {point.label}: {number(point.x)}, {number(point.y)}{told}"
            )
    return text_of(root)


def _interval(root: Element, point: Point, x: float, up: Scale) -> str:
    """Draw the interval of y; its ends as text."""
    if point.low is None or point.high is None:
        return ""
    path = f"M{x:.1f} {_y(up, point.low):.1f}V{_y(up, point.high):.1f}"
    shape(root, "path", "whisker", d=path)
    return f" ({number(point.low)} to {number(point.high)})"


def _axes(root: Element, chart: PointChart, across: Scale, up: Scale) -> None:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    for tick in up.ticks:
        y = _y(up, tick)
        shape(root, "line", "axis" if tick == up.first else "grid", x1=LEFT, x2=right, y1=y, y2=y)
        label(root, up.label(tick), LEFT - 8, y + 4, anchor="end")
    for tick in across.ticks:
        label(root, across.label(tick), _x(across, tick), bottom + 18, anchor="middle")
    label(root, chart.x_unit, (LEFT + right) / 2, bottom + 38, anchor="middle")
    name = label(root, chart.y_unit, 0, 0, anchor="middle")
    name.set("transform", f"translate(14 {(TOP + bottom) / 2:.1f}) rotate(-90)")


def _x(across: Scale, value: float) -> float:
    return LEFT + across.share(value) * (WIDTH - LEFT - RIGHT)


def _y(up: Scale, value: float) -> float:
    return HEIGHT - BOTTOM - up.share(value) * (HEIGHT - TOP - BOTTOM)
