"""The chart of accounts: a tree of names like `assets:bank:main`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Iterator

from .errors import LedgerError, UnknownAccount


class AccountType(Enum):
    """The five kinds of account."""

    ASSET = "asset"
    LIABILITY = "liability"
    EQUITY = "equity"
    INCOME = "income"
    EXPENSE = "expense"

    @property
    def sign(self) -> int:
        """+1 where a debit makes the account grow, else -1."""
        return 1 if self in (AccountType.ASSET, AccountType.EXPENSE) else -1


@dataclass(frozen=True)
class Account:
    """A node of the chart."""

    name: str
    type: AccountType
    currency: str

    @property
    def parent(self) -> str | None:
        """The name of the account above, None at the top."""
        head, _, _ = self.name.rpartition(":")
        return head or None


class Chart:
    """All accounts of a book, by name."""

    def __init__(self) -> None:
        self._accounts: dict[str, Account] = {}

    def open(self, name: str, type: AccountType, currency: str = "EUR") -> Account:
        """Add an account. Its parent must be there already and be of the same type."""
        account = Account(name, type, currency)
        if account.parent is not None and self[account.parent].type is not type:
            raise LedgerError(f"{name} is {type.value}, but its parent isn't")
        self._accounts[name] = account
        return account

    def __getitem__(self, name: str) -> Account:
        try:
            return self._accounts[name]
        except KeyError:
            raise UnknownAccount(f"no account named {name!r}") from None

    def __iter__(self) -> Iterator[Account]:
        return iter(sorted(self._accounts.values(), key=lambda account: account.name))

    def lineage(self, name: str) -> list[str]:
        """The account itself and everything above it, nearest first."""
        parts = name.split(":")
        return [":".join(parts[:size]) for size in range(len(parts), 0, -1)]

    def family(self, name: str) -> list[str]:
        """The account itself and everything below it."""
        prefix = name + ":"
        return [a.name for a in self if a.name == name or a.name.startswith(prefix)]

    def roots(self) -> list[Account]:
        """The accounts without a parent."""
        return [account for account in self if account.parent is None]
