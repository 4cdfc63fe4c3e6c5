"""When something recurs."""

from __future__ import annotations

import calendar
import itertools
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Iterator


def add_months(day: date, months: int) -> date:
    """The same day some months later, or the last one of a month that is too short."""
    years, month = divmod(day.month - 1 + months, 12)
    year, month = day.year + years, month + 1
    return date(year, month, min(day.day, calendar.monthrange(year, month)[1]))


@dataclass(frozen=True)
class Rule:
    """Every so many days, weeks or months; on certain weekdays (0 is Monday) of a week."""

    unit: str
    every: int = 1
    weekdays: tuple[int, ...] = ()
    times: int | None = None
    until: date | None = None

    def days(self, first: date, last: date) -> Iterator[date]:
        """All occurrences from `first` to `last`; the rule counts from `first`."""
        end = last if self.until is None else min(last, self.until)
        inside = itertools.takewhile(lambda day: day <= end, self._series(first, end))
        return itertools.islice(inside, self.times)

    def _series(self, first: date, end: date) -> Iterator[date]:
        if self.unit == "month":
            return self._months(first)
        if self.unit == "week":
            return self._weeks(first, end)
        return self._steps(first, self.every)

    def _steps(self, first: date, days: int) -> Iterator[date]:
        for step in itertools.count():
            yield first + timedelta(days=step * days)

    def _weeks(self, first: date, end: date) -> Iterator[date]:
        monday = first - timedelta(days=first.weekday())
        for start in self._steps(monday, 7 * self.every):
            if start > end:
                return
            for weekday in sorted(self.weekdays or (first.weekday(),)):
                day = start + timedelta(days=weekday)
                if day >= first:
                    yield day

    def _months(self, first: date) -> Iterator[date]:
        for step in itertools.count():
            day = add_months(first, step * self.every)
            yield day
