"""What can go wrong with a book."""


class LedgerError(Exception):
    """Base class of everything this package raises."""


class UnbalancedEntry(LedgerError):
    """The postings of an entry don't add up to zero in every currency."""


class UnknownAccount(LedgerError):
    """An account that the chart doesn't have."""


class UnknownRate(LedgerError):
    """No exchange rate is known for a pair of currencies on a day."""
