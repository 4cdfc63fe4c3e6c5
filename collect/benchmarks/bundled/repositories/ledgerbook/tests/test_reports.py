from datetime import date

from ledgerbook import Money
from ledgerbook.reports import balance_sheet, exchange_gain, trial_balance

JANUARY, FEBRUARY, MARCH = date(2023, 1, 31), date(2023, 2, 28), date(2023, 3, 31)


def fund(journal, entry):
    journal.post(entry(date(2023, 1, 2), "Capital", "assets:bank:main", "equity", 5000))
    journal.post(entry(date(2023, 1, 9), "Sale", "assets:bank:main", "income", 800))
    journal.post(entry(date(2023, 1, 20), "Rent", "expenses:rent", "assets:bank:main", 300))


def test_balance_includes_sub_accounts(journal, ledger, entry):
    fund(journal, entry)
    assert ledger.balance("assets", JANUARY) == Money.of(5500, "EUR")


def test_balance_before_the_first_entry(journal, ledger, entry):
    fund(journal, entry)
    assert not ledger.balance("assets", date(2023, 1, 1))


def test_change_of_a_period(journal, ledger, entry):
    fund(journal, entry)
    assert ledger.change("assets", date(2023, 1, 5), JANUARY) == Money.of(500, "EUR")


def test_balance_sheet_balances(journal, ledger, entry):
    fund(journal, entry)
    sheet = balance_sheet(ledger, JANUARY)
    assert sheet.assets == Money.of(5500, "EUR")
    assert sheet.result == Money.of(500, "EUR")
    assert not sheet.difference


def test_late_entry_reaches_an_earlier_sheet(journal, ledger, entry):
    fund(journal, entry)
    assert not balance_sheet(ledger, JANUARY).difference
    journal.post(entry(date(2023, 1, 15), "Late rent", "expenses:rent", "assets:bank:main", 120))
    sheet = balance_sheet(ledger, JANUARY)
    assert sheet.assets == Money.of(5380, "EUR")
    assert sheet.result == Money.of(380, "EUR")
    assert not sheet.difference


def test_new_entry_leaves_earlier_sheets_alone(journal, ledger, entry):
    fund(journal, entry)
    before = balance_sheet(ledger, JANUARY)
    journal.post(entry(date(2023, 2, 15), "Sale", "assets:bank:main", "income", 120))
    assert balance_sheet(ledger, JANUARY) == before
    assert balance_sheet(ledger, FEBRUARY).assets == Money.of(5620, "EUR")


def test_exchange_gain_without_movement(journal, ledger, entry):
    journal.post(entry(date(2023, 1, 2), "Dollars", "assets:bank:usd", "equity:usd", 1000, "USD"))
    gain = exchange_gain(ledger, "assets:bank:usd", JANUARY, date(2023, 4, 30), "EUR")
    assert gain == Money.of(200, "EUR")


def test_exchange_gain_at_the_end_of_the_quarter(journal, ledger, entry):
    journal.post(entry(date(2023, 1, 2), "Dollars", "assets:bank:usd", "equity:usd", 1000, "USD"))
    journal.post(entry(FEBRUARY, "More", "assets:bank:usd", "equity:usd", 500, "USD"))
    gain = exchange_gain(ledger, "assets:bank:usd", JANUARY, MARCH, "EUR")
    assert gain == Money.of(300, "EUR")


def test_trial_balance_leaves_out_empty_accounts(journal, ledger, entry):
    fund(journal, entry)
    assert sorted(trial_balance(ledger, JANUARY)) == [
        "assets",
        "assets:bank",
        "assets:bank:main",
        "equity",
        "expenses",
        "expenses:rent",
        "income",
    ]
