"""Charts: axes of round numbers, bars and points where their values belong, nothing unescaped."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from eval.charts.figures import figure_of
from eval.charts.records import Bar, BarChart, BarSeries, Point, PointChart, PointSeries
from eval.charts.scales import scale_over

HOSTILE = "</svg><script>alert(1)</script>\x1b[31m\x00\u202e"
BARS = BarChart(
    "Pass rate",
    "%",
    (
        BarSeries("large", (Bar("Baseline", 40, 30, 50), Bar("Debug2Fix", 60))),
        BarSeries(HOSTILE, (Bar("Debug2Fix", 20), Bar(HOSTILE, 0))),
    ),
    end=100,
)
POINTS = PointChart(
    "Rate against steps",
    "steps",
    "%",
    (
        PointSeries("large", (Point(0, 0), Point(5, 50, HOSTILE, 40, 60), Point(10, 100))),
        PointSeries("small", (Point(2, 10),)),
    ),
    joined=True,
)


@pytest.mark.parametrize(
    ("values", "end", "ticks"),
    [
        ((3, 100), 100, [0, 20, 40, 60, 80, 100]),
        ((0.4,), None, [0, 0.1, 0.2, 0.3, 0.4]),
        ((-12, 31), None, [-20, -10, 0, 10, 20, 30, 40]),
        ((), None, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        ((float("nan"), 4_400), None, [0, 1000, 2000, 3000, 4000, 5000]),
    ],
)
def test_axes(values: tuple[float, ...], end: float | None, ticks: list[float]) -> None:
    scale = scale_over(values, end)
    assert scale.ticks == pytest.approx(ticks)
    assert scale.share(ticks[0]) == 0
    assert scale.share(scale.ticks[-1]) == pytest.approx(1)


def test_ticks_as_text() -> None:
    assert [scale_over([0.3]).label(tick) for tick in (0, 0.1 + 0.2)] == ["0", "0.3"]
    assert scale_over([4_400]).label(2000) == "2.0k"


def test_bars_are_as_long_as_their_values() -> None:
    root = ElementTree.fromstring(figure_of(BARS).drawing)
    bars = list(root.iter("rect"))
    told = {bar.findtext("title"): float(bar.get("width", 0)) for bar in bars}
    assert told["large, Debug2Fix: 60"] == pytest.approx(
        3 * told[next(t for t in told if t and "20" in t)], rel=0.01
    )
    assert "large, Baseline: 40 (30 to 50)" in told
    assert [bar.get("class") for bar in bars] == ["s0", "s0", "s1", "s1"]


def test_stacked_bars_lie_end_to_end() -> None:
    series = (
        BarSeries("main", (Bar("a", 30), Bar("b", 10))),
        BarSeries("sub", (Bar("a", 10), Bar("b", 50))),
    )
    chart = BarChart("Steps", "steps", series, stacked=True)
    root = ElementTree.fromstring(figure_of(chart).drawing)
    bars = {bar.findtext("title", ""): bar for bar in root.iter("rect")}
    main, sub = bars["main, a: 30"], bars["sub, a: 10"]
    end = float(main.get("x", 0)) + float(main.get("width", 0))
    assert float(sub.get("x", 0)) == pytest.approx(end, abs=0.2)
    assert main.get("y") == sub.get("y")
    assert "60" in [each.text for each in root.iter("text")]


def test_points_lie_where_their_values_are() -> None:
    figure = figure_of(POINTS)
    root = ElementTree.fromstring(figure.drawing)
    line = next(each for each in root.iter("polyline")).get("points", "")
    places = [tuple(map(float, point.split(","))) for point in line.split()]
    (left, bottom), middle, (right, top) = places
    assert middle == pytest.approx(((left + right) / 2, (top + bottom) / 2))
    assert figure.names == ("large", "small")
    assert len(figure.marks) > 1


@pytest.mark.parametrize("chart", [BARS, POINTS])
def test_no_text_gets_out(chart: BarChart | PointChart) -> None:
    drawing = figure_of(chart).drawing
    assert "<script" not in drawing
    assert not {"\x1b", "\x00", "\u202e"} & set(drawing)
    assert "\\x1b[31m\\x00\\u202e" in drawing
