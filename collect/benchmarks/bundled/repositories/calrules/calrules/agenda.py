"""Events of people in several time zones, on one time line."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Iterator

from .business import Calendar
from .intervals import Interval, gaps, merge
from .rules import Rule
from .zones import UTC, Zone

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Event:
    """Something that happens on days of a rule, at a local time."""

    title: str
    first: date
    at: time
    length: timedelta
    rule: Rule
    zone: Zone = UTC
    calendar: Calendar | None = None
    convention: str = "following"

    def days(self, last: date) -> Iterator[date]:
        """The local days up to `last`, moved off closed days."""
        for day in self.rule.days(self.first, last):
            yield self.calendar.roll(day, self.convention) if self.calendar else day

    def intervals(self, window: Interval) -> Iterator[Interval]:
        """The times in UTC that touch a window in UTC, uncut."""
        for day in self.days(window.end.date() + DAY):
            start = self.zone.to_utc(datetime.combine(day, self.at))
            interval = Interval(start, start + self.length)
            if interval.clip(window):
                yield interval


class Agenda:
    """A set of events."""

    def __init__(self, *events: Event) -> None:
        self.events = events

    def entries(self, window: Interval) -> list[tuple[datetime, str]]:
        """Start in UTC and title of all that touches a window."""
        return sorted(
            (interval.start, event.title)
            for event in self.events
            for interval in event.intervals(window)
        )

    def busy(self, window: Interval) -> list[Interval]:
        """The time that is taken."""
        taken = (interval for event in self.events for interval in event.intervals(window))
        clipped = (interval.clip(window) for interval in taken)
        return merge(interval for interval in clipped if interval)

    def free(self, window: Interval, at_least: timedelta) -> list[Interval]:
        """The gaps of a minimal length."""
        return [gap for gap in gaps(window, self.busy(window)) if gap.length >= at_least]
