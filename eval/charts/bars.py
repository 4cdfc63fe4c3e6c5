"""Grouped horizontal bars: there is room for long names, also in a narrow window."""

from __future__ import annotations

from dataclasses import dataclass
from xml.etree.ElementTree import Element

from markupsafe import Markup

from eval.charts.records import Bar, BarChart
from eval.charts.scales import Scale, number, scale_over
from eval.charts.svg import CHARACTER, colour, drawing, label, lines_of, shape, text_of, tooltip

WIDTH, RIGHT, TOP, BOTTOM = 640.0, 52.0, 6.0, 44.0
BAR, BAR_GAP, GROUP_GAP, LINE = 16.0, 4.0, 16.0, 15.0
LONGEST_LABEL = 220.0


@dataclass(frozen=True)
class _Plot:
    """Where things are drawn."""

    root: Element
    scale: Scale
    left: float
    """Where the axis begins."""

    def x(self, value: float) -> float:
        return self.left + self.scale.share(value) * (WIDTH - RIGHT - self.left)


def draw_bars(chart: BarChart) -> Markup:
    """The chart as SVG."""
    groups = groups_of(chart)
    longest = max((len(name) for name in groups), default=0) * CHARACTER
    heights = [_height(chart, group) for group in groups]
    height = TOP + sum(heights) + GROUP_GAP * len(groups) + BOTTOM
    root = drawing(f"{chart.title}, {chart.unit}", WIDTH, height)
    plot = _Plot(root, scale_over(_numbers(chart), chart.end), min(LONGEST_LABEL, longest) + 12)
    _axis(plot, height - BOTTOM, chart.unit)
    y = TOP + GROUP_GAP / 2
    for group, tall in zip(groups, heights, strict=True):
        _name(plot, group, y + tall / 2)
        _group(plot, chart, group, y + (tall - _bars_height(chart, group)) / 2)
        y += tall + GROUP_GAP
    return text_of(root)


def groups_of(chart: BarChart) -> list[str]:
    """The names of the groups, each once."""
    return list(dict.fromkeys(bar.group for series in chart.series for bar in series.bars))


def _name(plot: _Plot, group: str, middle: float) -> None:
    lines = lines_of(group, LONGEST_LABEL)
    for place, line in enumerate(lines):
        y = middle + 4 + LINE * (place - (len(lines) - 1) / 2)
        tooltip(label(plot.root, line, plot.left - 10, y, anchor="end"), group)


def _group(plot: _Plot, chart: BarChart, group: str, y: float) -> None:
    if chart.stacked:
        _stack(plot, chart, group, y)
        return
    for index, series in enumerate(chart.series):
        for bar in series.bars:
            if bar.group == group:
                mark, told = _bar(plot, bar, colour(index), y)
                tooltip(mark, f"{series.name}, {group}: {told}")
                y += BAR + BAR_GAP


def _stack(plot: _Plot, chart: BarChart, group: str, y: float) -> None:
    total = 0.0
    for index, series in enumerate(chart.series):
        for bar in series.bars:
            if bar.group == group:
                first, last = plot.x(total), plot.x(total + bar.value)
                wide = max(0.0, last - first)
                mark = shape(plot.root, "rect", colour(index), x=first, y=y, width=wide, height=BAR)
                tooltip(mark, f"{series.name}, {group}: {number(bar.value)}")
                total += bar.value
    label(plot.root, number(total), plot.x(total) + 6, y + BAR / 2 + 4)


def _bar(plot: _Plot, bar: Bar, kind: str, y: float) -> tuple[Element, str]:
    """The bar's element, and its numbers as text."""
    zero, end = sorted((plot.x(0), plot.x(bar.value)))
    mark = shape(plot.root, "rect", kind, x=zero, y=y, width=max(1.0, end - zero), height=BAR)
    told, edge = number(bar.value), end
    if bar.low is not None and bar.high is not None:
        low, high = plot.x(bar.low), plot.x(bar.high)
        ends = f"M{low:.1f} {y + 4:.1f}v8M{high:.1f} {y + 4:.1f}v8"
        path = f"M{low:.1f} {y + BAR / 2:.1f}H{high:.1f}{ends}"
        shape(plot.root, "path", "whisker", d=path)
        told, edge = f"{told} ({number(bar.low)} to {number(bar.high)})", max(end, high)
    label(plot.root, number(bar.value), edge + 6, y + BAR / 2 + 4)
    return mark, told


def _axis(plot: _Plot, bottom: float, unit: str) -> None:
    for tick in plot.scale.ticks:
        x = plot.x(tick)
        shape(plot.root, "line", "axis" if tick == 0 else "grid", x1=x, x2=x, y1=TOP, y2=bottom)
        label(plot.root, plot.scale.label(tick), x, bottom + 16, anchor="middle")
    label(plot.root, unit, (plot.left + WIDTH - RIGHT) / 2, bottom + 36, anchor="middle")


def _height(chart: BarChart, group: str) -> float:
    """Of a group: its bars, or its name where that is higher."""
    return max(_bars_height(chart, group), LINE * len(lines_of(group, LONGEST_LABEL)))


def _bars_height(chart: BarChart, group: str) -> float:
    bars = sum(bar.group == group for series in chart.series for bar in series.bars)
    return BAR if chart.stacked else bars * (BAR + BAR_GAP) - BAR_GAP


def _numbers(chart: BarChart) -> list[float]:
    """What the axis has to hold."""
    bars = [bar for series in chart.series for bar in series.bars]
    if chart.stacked:
        groups = groups_of(chart)
        return [sum(bar.value for bar in bars if bar.group == group) for group in groups]
    found = [each for bar in bars for each in (bar.value, bar.low, bar.high)]
    return [each for each in found if each is not None]
