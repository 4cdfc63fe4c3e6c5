"""Bringing a series onto regular times."""

from __future__ import annotations

from typing import Callable, Dict, List

from .series import Series, SeriesError, Value


def mean(values: List[float]) -> float:
    return sum(values) / len(values)


AGGREGATES: Dict[str, Callable[[List[float]], float]] = {
    "mean": mean,
    "sum": sum,
    "min": min,
    "max": max,
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "count": len,
}


def resample(series: Series, step: float, how: str = "mean") -> Series:
    """One value for each `step`, at the begin of the step. Steps without values are missing."""
    if step <= 0:
        raise SeriesError("step must be positive: %r" % step)
    buckets: Dict[int, List[float]] = {}
    for time, value in series.known():
        buckets.setdefault(int(time // step), []).append(value)
    if not buckets:
        return Series([], [])
    numbers = range(min(buckets), max(buckets) + 1)
    aggregate = AGGREGATES[how]
    values: List[Value] = [aggregate(buckets[n]) if n in buckets else None for n in numbers]
    return Series([n * step for n in numbers], values)
