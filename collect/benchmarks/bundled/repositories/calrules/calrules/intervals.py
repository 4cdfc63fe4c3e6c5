"""Half-open spans of time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Iterable


@dataclass(frozen=True, order=True)
class Interval:
    """From `start`, included, to `end`, excluded."""

    start: datetime
    end: datetime

    @property
    def length(self) -> timedelta:
        """How long it is."""
        return self.end - self.start

    def clip(self, window: Interval) -> Interval | None:
        """The part inside of a window, None where there is none."""
        start, end = max(self.start, window.start), min(self.end, window.end)
        return Interval(start, end) if start < end else None


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """The same time in as few intervals as possible, in order."""
    merged: list[Interval] = []
    for each in sorted(intervals):
        if merged and each.start <= merged[-1].end:
            merged[-1] = Interval(merged[-1].start, max(merged[-1].end, each.end))
        else:
            merged.append(each)
    return merged


def gaps(window: Interval, taken: Iterable[Interval]) -> list[Interval]:
    """The parts of a window that no interval covers."""
    free = []
    start = window.start
    for each in merge(taken):
        if each.start > start:
            free.append(Interval(start, min(each.start, window.end)))
        start = max(start, each.end)
        if start >= window.end:
            return free
    return free + [Interval(start, window.end)]
