from datetime import date

import pytest

from ledgerbook import Entry, Money, Posting
from ledgerbook.errors import UnbalancedEntry, UnknownAccount

FIRSTS = [date(2023, month, 1) for month in (1, 2, 3)]


@pytest.fixture
def rent(entry):
    return entry(FIRSTS[0], "Rent", "expenses:rent", "assets:bank:main", 900)


def test_refuses_an_unbalanced_entry(journal):
    posting = Posting("assets:bank:main", Money.of(5, "EUR"))
    with pytest.raises(UnbalancedEntry):
        journal.post(Entry(FIRSTS[0], "Half", (posting,)))


def test_refuses_an_unknown_account(journal, entry):
    with pytest.raises(UnknownAccount):
        journal.post(entry(FIRSTS[0], "Odd", "assets:cash", "income", 5))


def test_keeps_entries_by_day(journal, entry):
    journal.post(entry(FIRSTS[1], "later", "expenses", "assets:bank:main", 1))
    journal.post(entry(FIRSTS[0], "earlier", "expenses", "assets:bank:main", 1))
    assert [e.text for e in journal.between(date.min, date.max)] == ["earlier", "later"]


def test_recurring_entries_fall_on_their_days(journal, rent):
    posted = journal.post_recurring(rent, FIRSTS)
    assert [entry.day for entry in posted] == FIRSTS


def test_reversal_undoes_an_entry(journal, ledger, rent):
    journal.post(rent)
    journal.post(rent.reversed(FIRSTS[1]))
    assert not ledger.balance("expenses", FIRSTS[1])


def test_clear_marks_a_single_entry(journal, rent):
    journal.post(rent)
    assert journal.clear("Rent", FIRSTS[0], "2023-01") == 1
    assert journal.uncleared("assets:bank:main", FIRSTS[0]) == []


def test_clear_without_a_match(journal, rent):
    journal.post(rent)
    assert journal.clear("Rent", FIRSTS[1], "2023-02") == 0
    assert journal.uncleared("assets:bank:main", FIRSTS[2]) == [rent]


def test_uncleared_recurring_entries_stay_open(journal, rent):
    journal.post_recurring(rent, FIRSTS)
    journal.clear("Rent", FIRSTS[0], "2023-01")
    open_days = [entry.day for entry in journal.uncleared("assets:bank:main", FIRSTS[2])]
    assert open_days == FIRSTS[1:]
