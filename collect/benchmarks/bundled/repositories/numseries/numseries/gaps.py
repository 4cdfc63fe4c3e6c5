"""Filling in missing values."""

from __future__ import annotations

from bisect import bisect_left

from .series import Series, Value


def value_at(series: Series, time: float) -> Value:
    """The value at any time, on a straight line between its known neighbours.

    Missing before the first known value and after the last one.
    """
    known = series.known()
    right = bisect_left(known.times, time)
    if right < len(known) and known.times[right] == time:
        return known.values[right]
    if right == 0 or right == len(known):
        return None
    t0, t1 = known.times[right - 1 : right + 1]
    v0, v1 = known.values[right - 1 : right + 1]
    return v0 + (v1 - v0) * (time - t0) / (t1 - t0)


def fill_linear(series: Series) -> Series:
    """Missing values on a straight line between their neighbours."""
    values = [value_at(series, t) if v is None else v for t, v in series]
    return Series(series.times, values)


def fill_previous(series: Series) -> Series:
    """Missing values as the last known one before them."""
    last: Value = None
    values = []
    for value in series.values:
        last = last if value is None else value
        values.append(last)
    return Series(series.times, values)
