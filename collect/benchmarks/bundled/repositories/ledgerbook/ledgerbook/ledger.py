"""Balances of accounts, sub-accounts included."""

from __future__ import annotations

from datetime import date

from .journal import Entry, Journal
from .money import Money
from .rates import RateTable


class Ledger:
    """Answers balance questions over a journal, and remembers the answers."""

    def __init__(self, journal: Journal, rates: RateTable) -> None:
        self.journal = journal
        self.chart = journal.chart
        self.rates = rates
        self._balances: dict[str, dict[date, Money]] = {}
        journal.subscribe(self._forget)

    def balance(self, name: str, day: date) -> Money:
        """The account with all below it at the end of a day, in the account's currency.

        Sub-accounts in another currency count at the rates of that day.
        """
        known = self._balances.setdefault(name, {})
        if day not in known:
            known[day] = self._sum(name, day)
        return known[day]

    def change(self, name: str, first: date, last: date) -> Money:
        """What the account moved by from `first` to `last`, both included."""
        account = self.chart[name]
        total = Money.of(0, account.currency)
        family = set(self.chart.family(name))
        for entry in self.journal.between(first, last):
            for posting in entry.postings:
                if posting.account in family:
                    total += self.rates.convert(posting.money, account.currency, entry.day)
        return total

    def _sum(self, name: str, day: date) -> Money:
        account = self.chart[name]
        total = Money.of(0, account.currency)
        for member in self.chart.family(name):
            total += self.rates.convert(self._own(member, day), account.currency, day)
        return total

    def _own(self, name: str, day: date) -> Money:
        total = Money.of(0, self.chart[name].currency)
        for entry in self.journal.between(date.min, day):
            for posting in entry.postings:
                if posting.account == name:
                    total += posting.money
        return total

    def _forget(self, entry: Entry) -> None:
        for posting in entry.postings:
            for name in self.chart.lineage(posting.account):
                known = self._balances.get(name, {})
                for day in [day for day in known if day >= entry.day]:
                    del known[day]
