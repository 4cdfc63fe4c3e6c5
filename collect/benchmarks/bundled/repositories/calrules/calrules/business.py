"""Business days."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Iterable

DAY = timedelta(days=1)


class Calendar:
    """Which days are open for business."""

    def __init__(self, holidays: Iterable[date] = (), weekend: Iterable[int] = (5, 6)) -> None:
        self.holidays = frozenset(holidays)
        self.weekend = frozenset(weekend)

    def is_open(self, day: date) -> bool:
        """Neither weekend nor holiday."""
        return day.weekday() not in self.weekend and day not in self.holidays

    def roll(self, day: date, convention: str) -> date:
        """The day itself where it is open, else the next open one by convention.

        `following` and `preceding` say what they do; `modified` is `following`, unless that leaves
        the month, and then it is `preceding`.
        """
        step = -DAY if convention == "preceding" else DAY
        rolled = day
        while not self.is_open(rolled):
            rolled += step
        if convention == "modified" and rolled.month != day.month:
            return self.roll(day, "preceding")
        return rolled

    def add(self, day: date, days: int) -> date:
        """So many business days later, or earlier where negative."""
        step = DAY if days >= 0 else -DAY
        for _ in range(abs(days)):
            day += step
            while not self.is_open(day):
                day += step
        return day
