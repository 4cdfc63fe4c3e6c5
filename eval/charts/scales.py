"""Axes: round numbers at even distances, and where a value lies between them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from collect.quantities import tokens

STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Round distances of two ticks, times a power of ten."""
TICKS = 5


@dataclass(frozen=True)
class Scale:
    """One axis."""

    first: float
    last: float
    step: float

    @property
    def ticks(self) -> list[float]:
        """Every tick, both ends among them."""
        count = round((self.last - self.first) / self.step)
        return [self.first + i * self.step for i in range(count + 1)]

    def share(self, value: float) -> float:
        """Where a value lies: 0 at the axis' beginning, 1 at its end."""
        return (value - self.first) / (self.last - self.first)

    def label(self, tick: float) -> str:
        """A tick as text: 0, 2.5, 15.2k."""
        return tokens(tick) if self.step >= 1000 else f"{round(tick, 10):g}"


def scale_over(values: Iterable[float], end: float | None = None) -> Scale:
    """An axis from 0, or below it where a value is negative, to a round number past the largest.

    `end`: where it ends in place of that.
    """
    known = [value for value in values if math.isfinite(value)]
    low, high = min([0.0, *known]), max([0.0, *known])
    if end is not None:
        high = max(high, end)
    if high == low:
        high = low + 1
    step = _round_up((high - low) / TICKS)
    return Scale(math.floor(low / step) * step, math.ceil(high / step - 1e-9) * step, step)


def number(value: float) -> str:
    """A value as a chart tells it: 61.2, 1,204, 0.0315."""
    if 0 < abs(value) < 0.95:
        return f"{value:.3g}"
    return f"{value:,.1f}".removesuffix(".0")


def _round_up(distance: float) -> float:
    power = 10.0 ** math.floor(math.log10(distance))
    return next(step * power for step in STEPS if step * power >= distance * (1 - 1e-9))
