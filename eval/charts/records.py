"""What a chart shows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """One value of a series."""

    group: str
    value: float
    low: float | None = None
    """The ends of its interval; None where it has none."""
    high: float | None = None


@dataclass(frozen=True)
class BarSeries:
    """Bars of one colour: at most one a group."""

    name: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class BarChart:
    """Horizontal bars, grouped, the groups in the order in which they first appear."""

    title: str
    unit: str
    """Of the values, as the axis says it: pass rate in %."""
    series: tuple[BarSeries, ...]
    end: float | None = None
    """Where the axis ends, if the values have a bound: 100 for percent."""
    stacked: bool = False
    """The series of a group end to end, in one bar; no intervals then."""
    note: str = ""
    """What a reader must know."""


@dataclass(frozen=True)
class Point:
    """One point of a series."""

    x: float
    y: float
    label: str = ""
    """What it is, beside its series."""
    low: float | None = None
    """The ends of the interval of y; None where it has none."""
    high: float | None = None


@dataclass(frozen=True)
class PointSeries:
    """Points of one colour and mark."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class PointChart:
    """Points over two axes, joined to lines by series where that means something."""

    title: str
    x_unit: str
    y_unit: str
    series: tuple[PointSeries, ...]
    joined: bool = False
    end: float | None = None
    """Where the axis of y ends, if the values have a bound."""
    note: str = ""
    """What a reader must know."""


Chart = BarChart | PointChart
