"""Discounts. Each one answers with the cents that it takes off every line."""

from __future__ import annotations

from typing import List, Optional, Sequence

from .cart import CartLine
from .money import allocate, percent_of


class PercentOff:
    """A percentage off all lines, or off those of one category."""

    def __init__(self, percent: float, category: Optional[str] = None) -> None:
        self.percent = percent
        self.category = category

    def amounts(self, lines: Sequence[CartLine], prices: Sequence[int]) -> List[int]:
        weights = [
            price if self.category in (None, line.product.category) else 0
            for line, price in zip(lines, prices)
        ]
        return allocate(percent_of(sum(weights), self.percent), weights)


class BuyXGetY:
    """Of each `buy + free` pieces of a product, `free` cost nothing."""

    def __init__(self, sku: str, buy: int, free: int) -> None:
        self.sku = sku
        self.buy = buy
        self.free = free

    def amounts(self, lines: Sequence[CartLine], prices: Sequence[int]) -> List[int]:
        return [self._amount(line) if line.product.sku == self.sku else 0 for line in lines]

    def _amount(self, line: CartLine) -> int:
        groups = line.quantity // (self.buy + self.free)
        return groups * self.free * line.product.price


class Coupon:
    """A fixed amount off, from a minimum value of the goods on."""

    def __init__(self, value: int, minimum: int = 0) -> None:
        self.value = value
        self.minimum = minimum

    def amounts(self, lines: Sequence[CartLine], prices: Sequence[int]) -> List[int]:
        goods = sum(prices)
        if goods < self.minimum:
            return [0] * len(prices)
        return allocate(min(self.value, goods), prices)


def net_prices(lines: Sequence[CartLine], discounts: Sequence) -> List[int]:
    """What each line costs after all discounts, each applied to what the last one left."""
    prices = [line.subtotal for line in lines]
    for discount in discounts:
        taken = discount.amounts(lines, prices)
        prices = [price - cents for price, cents in zip(prices, taken)]
    return prices
