"""Amounts of money in a currency."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from .errors import LedgerError

MINOR_DIGITS = {"JPY": 0, "KWD": 3}


@dataclass(frozen=True)
class Money:
    """An exact amount. Positive is debit, negative is credit."""

    amount: Decimal
    currency: str

    @classmethod
    def of(cls, amount: object, currency: str) -> Money:
        """Money from anything that Decimal understands, rounded to the currency's digits."""
        return cls(Decimal(str(amount)), currency).rounded()

    def rounded(self) -> Money:
        """The same amount in whole minor units, half to even."""
        digits = MINOR_DIGITS.get(self.currency, 2)
        step = Decimal(1).scaleb(-digits)
        return Money(self.amount.quantize(step, rounding=ROUND_HALF_EVEN), self.currency)

    def __add__(self, other: Money) -> Money:
        self._require_same(other)
        return Money(self.amount + other.amount, self.currency)

    def __sub__(self, other: Money) -> Money:
        self._require_same(other)
        return Money(self.amount - other.amount, self.currency)

    def __neg__(self) -> Money:
        return Money(-self.amount, self.currency)

    def __bool__(self) -> bool:
        return bool(self.amount)

    def times(self, factor: Decimal, currency: str | None = None) -> Money:
        """The amount multiplied, in another currency where one is given."""
        return Money(self.amount * factor, currency or self.currency).rounded()

    def _require_same(self, other: Money) -> None:
        if self.currency != other.currency:
            raise LedgerError(f"cannot combine {self.currency} with {other.currency}")
