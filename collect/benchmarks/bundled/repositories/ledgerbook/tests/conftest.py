from datetime import date

import pytest

from ledgerbook import AccountType, Chart, Entry, Journal, Ledger, Money, Posting, RateTable


@pytest.fixture
def chart():
    chart = Chart()
    chart.open("assets", AccountType.ASSET)
    chart.open("assets:bank", AccountType.ASSET)
    chart.open("assets:bank:main", AccountType.ASSET)
    chart.open("assets:bank:usd", AccountType.ASSET, "USD")
    chart.open("liabilities", AccountType.LIABILITY)
    chart.open("equity", AccountType.EQUITY)
    chart.open("equity:usd", AccountType.EQUITY, "USD")
    chart.open("income", AccountType.INCOME)
    chart.open("expenses", AccountType.EXPENSE)
    chart.open("expenses:rent", AccountType.EXPENSE)
    return chart


@pytest.fixture
def rates():
    table = RateTable()
    table.quote(date(2022, 12, 31), "EUR", "USD", "1.25")
    table.quote(date(2023, 3, 31), "EUR", "USD", "1.00")
    table.quote(date(2022, 12, 31), "EUR", "GBP", "0.80")
    return table


@pytest.fixture
def journal(chart):
    return Journal(chart)


@pytest.fixture
def ledger(journal, rates):
    return Ledger(journal, rates)


@pytest.fixture
def entry():
    def build(day, text, debit, credit, amount, currency="EUR"):
        money = Money.of(amount, currency)
        return Entry(day, text, (Posting(debit, money), Posting(credit, -money)))

    return build
