"""Stock, and the part of it that is set aside for orders."""

from __future__ import annotations

from typing import Dict, Iterable, Tuple


class OutOfStock(Exception):
    """Less is available than was asked for."""


class Inventory:
    """Pieces on the shelf and pieces reserved, by SKU."""

    def __init__(self, stock: Dict[str, int]) -> None:
        self._stock = dict(stock)
        self._reserved: Dict[str, int] = {}

    def available(self, sku: str) -> int:
        return self._stock.get(sku, 0) - self._reserved.get(sku, 0)

    def on_shelf(self, sku: str) -> int:
        return self._stock.get(sku, 0)

    def receive(self, sku: str, quantity: int) -> None:
        self._stock[sku] = self._stock.get(sku, 0) + quantity

    def reserve(self, items: Iterable[Tuple[str, int]]) -> None:
        """Set all items aside, or none of them if one is short."""
        items = list(items)
        done = []
        try:
            for sku, quantity in items:
                self._reserve_one(sku, quantity)
                done.append((sku, quantity))
        except OutOfStock:
            self.release(done)
            raise

    def release(self, items: Iterable[Tuple[str, int]]) -> None:
        """Give reserved items back."""
        for sku, quantity in items:
            self._reserved[sku] = self._reserved.get(sku, 0) - quantity

    def ship(self, items: Iterable[Tuple[str, int]]) -> None:
        """Take reserved items off the shelf."""
        items = list(items)
        self.release(items)
        for sku, quantity in items:
            self._stock[sku] -= quantity

    def _reserve_one(self, sku: str, quantity: int) -> None:
        if quantity > self.available(sku):
            raise OutOfStock("%d of %s wanted, %d available" % (quantity, sku, self.available(sku)))
        self._reserved[sku] = self._reserved.get(sku, 0) + quantity
