"""Exchange rates by day."""

from __future__ import annotations

import bisect
from datetime import date
from decimal import Decimal

from .errors import UnknownRate
from .money import Money


class RateTable:
    """Quoted rates. A rate holds from its day on, until the next quote of the pair."""

    def __init__(self, pivot: str = "EUR") -> None:
        self.pivot = pivot
        self._days: dict[tuple[str, str], list[date]] = {}
        self._rates: dict[tuple[str, str, date], Decimal] = {}

    def quote(self, day: date, base: str, quote: str, rate: object) -> None:
        """Record that one unit of `base` costs `rate` units of `quote`."""
        days = self._days.setdefault((base, quote), [])
        if day not in days:
            bisect.insort(days, day)
        self._rates[base, quote, day] = Decimal(str(rate))

    def rate(self, base: str, quote: str, day: date) -> Decimal:
        """Units of `quote` for one unit of `base`: quoted, inverted, or through the pivot."""
        if base == quote:
            return Decimal(1)
        direct = self._find(base, quote, day)
        if direct is not None:
            return direct
        if self.pivot in (base, quote):
            raise UnknownRate(f"no rate {base}/{quote} on {day}")
        return self.rate(base, self.pivot, day) * self.rate(self.pivot, quote, day)

    def convert(self, money: Money, currency: str, day: date) -> Money:
        """Money in another currency at the rate of a day."""
        return money.times(self.rate(money.currency, currency, day), currency)

    def _find(self, base: str, quote: str, day: date) -> Decimal | None:
        found = self._latest(base, quote, day)
        if found is not None:
            return found
        inverse = self._latest(quote, base, day)
        return None if inverse is None else 1 / inverse

    def _latest(self, base: str, quote: str, day: date) -> Decimal | None:
        days = self._days.get((base, quote), [])
        position = bisect.bisect_right(days, day)
        if position == 0:
            return None
        return self._rates[base, quote, days[position - 1]]
