"""Polynomial trends by least squares."""

from __future__ import annotations

from typing import List

from .matrix import Factors, multiply, transpose
from .series import Series, SeriesError


class Trend:
    """The polynomial of a degree that comes closest to a series."""

    def __init__(self, series: Series, degree: int = 1) -> None:
        known = series.known()
        if len(known) <= degree:
            raise SeriesError("%d values are too few for degree %d" % (len(known), degree))
        self._origin = known.times[len(known) // 2]
        design = [self._powers(time, degree) for time in known.times]
        turned = transpose(design)
        right = multiply(turned, [[value] for value in known.values])
        factors = Factors(multiply(turned, design))
        self.coefficients = factors.solve([row[0] for row in right])

    def _powers(self, time: float, degree: int) -> List[float]:
        return [(time - self._origin) ** power for power in range(degree + 1)]

    def at(self, time: float) -> float:
        powers = self._powers(time, len(self.coefficients) - 1)
        return sum(c * p for c, p in zip(self.coefficients, powers))

    def line(self, series: Series) -> Series:
        """The trend at the times of a series."""
        return Series(series.times, [self.at(time) for time in series.times])
