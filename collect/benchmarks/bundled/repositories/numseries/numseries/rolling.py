"""Statistics of the last few values, updated value by value."""

from __future__ import annotations

from collections import deque
from math import sqrt
from typing import Callable, Deque

from .series import Series, SeriesError, Value


class Window:
    """The last `size` values with their count, sum and sum of squares."""

    def __init__(self, size: int) -> None:
        if size < 1:
            raise SeriesError("a window needs at least one value")
        self._size = size
        self._values: Deque[Value] = deque()
        self._count = 0
        self._sum = 0.0
        self._squares = 0.0

    def push(self, value: Value) -> None:
        """Add a value, and drop the oldest one where the window is full."""
        if len(self._values) == self._size:
            self._account(self._values.popleft(), -1)
        self._values.append(value)
        self._account(value, 1)

    def _account(self, value: Value, sign: int) -> None:
        if value is None:
            return
        self._count += sign
        self._sum += sign * value
        self._squares += sign * value * value

    def mean(self) -> Value:
        return self._sum / self._count if self._count else None

    def deviation(self) -> Value:
        """The standard deviation of the sample; missing for fewer than two values."""
        if self._count < 2:
            return None
        spread = self._squares - self._sum * self._sum / self._count
        return sqrt(max(spread, 0.0) / (self._count - 1))


def rolling(series: Series, size: int, statistic: Callable[[Window], Value]) -> Series:
    """The statistic of each value and those before it, `size` altogether."""
    window = Window(size)
    results = []
    for value in series.values:
        window.push(value)
        results.append(statistic(window))
    return Series(series.times, results)


def rolling_mean(series: Series, size: int) -> Series:
    return rolling(series, size, Window.mean)


def rolling_deviation(series: Series, size: int) -> Series:
    return rolling(series, size, Window.deviation)
