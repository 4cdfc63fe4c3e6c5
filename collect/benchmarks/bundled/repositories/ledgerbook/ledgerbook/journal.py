"""Entries and the journal that keeps them in order."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Callable, Iterable, Iterator

from .accounts import Chart
from .errors import UnbalancedEntry
from .money import Money


@dataclass(frozen=True)
class Posting:
    """One side of an entry."""

    account: str
    money: Money


@dataclass
class Entry:
    """A dated, balanced set of postings, with free-form tags."""

    day: date
    text: str
    postings: tuple[Posting, ...]
    tags: dict[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Raise UnbalancedEntry unless debits equal credits in every currency."""
        sums: dict[str, Decimal] = defaultdict(Decimal)
        for posting in self.postings:
            sums[posting.money.currency] += posting.money.amount
        off = {currency: amount for currency, amount in sums.items() if amount}
        if off:
            raise UnbalancedEntry(f"{self.text!r} is off by {off}")

    def on(self, day: date) -> Entry:
        """The same entry on another day, independent of this one."""
        return Entry(day, self.text, self.postings, dict(self.tags))

    def reversed(self, day: date) -> Entry:
        """The entry that undoes this one."""
        postings = tuple(Posting(p.account, -p.money) for p in self.postings)
        return Entry(day, f"Reversal: {self.text}", postings, {"reverses": self.text})


class Journal:
    """All entries by day; those of one day in the order of posting."""

    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self._entries: list[Entry] = []
        self._listeners: list[Callable[[Entry], None]] = []

    def subscribe(self, listener: Callable[[Entry], None]) -> None:
        """Call `listener` with every entry posted from now on."""
        self._listeners.append(listener)

    def post(self, entry: Entry) -> Entry:
        """Check and keep an entry, whatever its day."""
        entry.check()
        for posting in entry.postings:
            self.chart[posting.account]
        self._entries.append(entry)
        self._entries.sort(key=lambda kept: kept.day)
        for listener in self._listeners:
            listener(entry)
        return entry

    def post_recurring(self, template: Entry, days: Iterable[date]) -> list[Entry]:
        """Post one copy of a template on each of the days."""
        return [self.post(template.on(day)) for day in days]

    def between(self, first: date, last: date) -> Iterator[Entry]:
        """Entries from `first` to `last`, both included."""
        return (entry for entry in self._entries if first <= entry.day <= last)

    def clear(self, text: str, day: date, statement: str) -> int:
        """Mark the entries with this text and day as seen on a bank statement; how many."""
        matches = [e for e in self.between(day, day) if e.text == text]
        for entry in matches:
            entry.tags["statement"] = statement
        return len(matches)

    def uncleared(self, account: str, last: date) -> list[Entry]:
        """Entries up to `last` that touch an account and were on no statement yet."""
        return [
            entry
            for entry in self.between(date.min, last)
            if "statement" not in entry.tags
            and any(posting.account == account for posting in entry.postings)
        ]
