"""A small double-entry ledger: accounts, journal, exchange rates, reports."""

from .accounts import Account, AccountType, Chart
from .errors import LedgerError
from .journal import Entry, Journal, Posting
from .ledger import Ledger
from .money import Money
from .rates import RateTable

__all__ = [
    "Account",
    "AccountType",
    "Chart",
    "Entry",
    "Journal",
    "Ledger",
    "LedgerError",
    "Money",
    "Posting",
    "RateTable",
]
