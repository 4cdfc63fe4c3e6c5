"""Values at increasing times."""

from __future__ import annotations

from typing import Callable, Iterator, List, Optional, Sequence, Tuple

Value = Optional[float]


class SeriesError(ValueError):
    """Data that is no series, or an operation that the series is too short for."""


class Series:
    """Pairs of a time and a value. A missing value is None."""

    def __init__(self, times: Sequence[float], values: Sequence[Value]) -> None:
        if len(times) != len(values):
            raise SeriesError("%d times for %d values" % (len(times), len(values)))
        for before, after in zip(times, times[1:]):
            if not before < after:
                raise SeriesError("times must increase: %r is followed by %r" % (before, after))
        self.times: List[float] = list(times)
        self.values: List[Value] = list(values)

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[Tuple[float, Value]]:
        return iter(zip(self.times, self.values))

    def __repr__(self) -> str:
        return "Series(%s)" % ", ".join("%g: %r" % pair for pair in self)

    def map(self, function: Callable[[float], Value]) -> Series:
        """`function` of each value. Missing ones stay missing."""
        return Series(self.times, [None if v is None else function(v) for v in self.values])

    def minus(self, other: Series) -> Series:
        """The difference of two series with the same times."""
        if self.times != other.times:
            raise SeriesError("the series have different times")
        pairs = zip(self.values, other.values)
        return Series(self.times, [None if None in (a, b) else a - b for a, b in pairs])

    def between(self, start: float, end: float) -> Series:
        """The part from `start` on, up to but not including `end`."""
        kept = [(t, v) for t, v in self if start <= t < end]
        return Series([t for t, _ in kept], [v for _, v in kept])

    def known(self) -> Series:
        """The part that isn't missing."""
        kept = [(t, v) for t, v in self if v is not None]
        return Series([t for t, _ in kept], [v for _, v in kept])
