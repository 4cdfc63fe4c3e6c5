"""Reports over a ledger."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from .accounts import AccountType
from .ledger import Ledger
from .money import Money


@dataclass(frozen=True)
class BalanceSheet:
    """Where a book stands at the end of a day, in one currency."""

    assets: Money
    liabilities: Money
    equity: Money
    result: Money

    @property
    def difference(self) -> Money:
        """Zero in a sound book."""
        return self.assets - self.liabilities - self.equity - self.result


def total(ledger: Ledger, type: AccountType, day: date, currency: str) -> Money:
    """All accounts of a type, positive where they grew on their normal side."""
    amount = Money.of(0, currency)
    for account in ledger.chart.roots():
        if account.type is type:
            amount += ledger.rates.convert(ledger.balance(account.name, day), currency, day)
    return amount if type.sign > 0 else -amount


def balance_sheet(ledger: Ledger, day: date, currency: str = "EUR") -> BalanceSheet:
    """Assets against liabilities, equity and the result so far."""
    income = total(ledger, AccountType.INCOME, day, currency)
    expenses = total(ledger, AccountType.EXPENSE, day, currency)
    return BalanceSheet(
        assets=total(ledger, AccountType.ASSET, day, currency),
        liabilities=total(ledger, AccountType.LIABILITY, day, currency),
        equity=total(ledger, AccountType.EQUITY, day, currency),
        result=income - expenses,
    )


def exchange_gain(ledger: Ledger, name: str, first: date, last: date, currency: str) -> Money:
    """What an account gained in `currency` from `first` to `last` without moving."""
    opening = ledger.rates.convert(ledger.balance(name, first), currency, first)
    closing = ledger.rates.convert(ledger.balance(name, last), currency, last)
    moved = Money.of(0, currency)
    for entry in ledger.journal.between(first, last):
        for posting in entry.postings:
            if posting.account == name and entry.day > first:
                moved += ledger.rates.convert(posting.money, currency, entry.day)
    return closing - opening - moved


def trial_balance(ledger: Ledger, day: date) -> dict[str, Money]:
    """Every account that has a balance, in its own currency."""
    balances = {account.name: ledger.balance(account.name, day) for account in ledger.chart}
    return {name: money for name, money in balances.items() if money}
