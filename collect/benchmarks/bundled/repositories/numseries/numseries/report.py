"""Questions that people ask about a series."""

from __future__ import annotations

from typing import Dict, List

from .gaps import fill_linear
from .resample import mean, resample
from .rolling import rolling_deviation, rolling_mean
from .series import Series
from .trend import Trend


def forecast(series: Series, steps: int, degree: int = 1) -> List[float]:
    """The trend at the next `steps` times, which follow at the last distance."""
    trend = Trend(series, degree)
    distance = series.times[-1] - series.times[-2]
    return [trend.at(series.times[-1] + distance * n) for n in range(1, steps + 1)]


def detrended(series: Series, degree: int = 1) -> Series:
    return series.minus(Trend(series, degree).line(series))


def outliers(series: Series, size: int = 5, limit: float = 3.0) -> List[float]:
    """Times of values further than `limit` deviations from the mean of the `size` before."""
    means = rolling_mean(series, size)
    deviations = rolling_deviation(series, size)
    found = []
    for i in range(1, len(series)):
        value, centre, spread = series.values[i], means.values[i - 1], deviations.values[i - 1]
        if value is None or spread is None:
            continue
        if abs(value - centre) > limit * spread:
            found.append(series.times[i])
    return found


def profile(series: Series, period: int, step: float = 1.0) -> Dict[int, float]:
    """The mean value at each of the `period` steps of a cycle, gaps filled in."""
    phases: Dict[int, List[float]] = {}
    for time, value in fill_linear(resample(series, step)):
        phases.setdefault(round(time / step) % period, []).append(value)
    return {phase: mean(values) for phase, values in sorted(phases.items())}


def around(series: Series, event: float, reach: float, step: float) -> Series:
    """What happened from `reach` before an event to `reach` after it; times count from it."""
    part = series.between(event - reach, event + reach)
    return resample(Series([t - event for t in part.times], part.values), step)
