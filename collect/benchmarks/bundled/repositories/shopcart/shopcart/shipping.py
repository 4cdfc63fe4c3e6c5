"""Shipping cost by weight."""

from __future__ import annotations

from bisect import bisect_left

#: Upper weight of each band in grams, and its price in cents.
BANDS = [(500, 299), (2000, 499), (5000, 799), (20000, 1499)]


class TooHeavy(ValueError):
    """No band carries the weight."""


class ShippingRates:
    """Weight bands, and the value of goods from which shipping is free."""

    def __init__(self, bands=None, free_from: int = 10000) -> None:
        self.bands = sorted(bands or BANDS)
        self.free_from = free_from

    def cost(self, weight: int, goods: int) -> int:
        if weight == 0 or goods >= self.free_from:
            return 0
        limits = [limit for limit, _ in self.bands]
        band = bisect_left(limits, weight)
        if band == len(limits):
            raise TooHeavy("%d g is more than the %d g that can be sent" % (weight, limits[-1]))
        return self.bands[band][1]
