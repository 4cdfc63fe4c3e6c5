"""The cart: how many of what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional

from .catalog import Catalog, Product


@dataclass(frozen=True)
class CartLine:
    product: Product
    quantity: int

    @property
    def subtotal(self) -> int:
        return self.product.price * self.quantity

    @property
    def weight(self) -> int:
        return self.product.weight * self.quantity


class Cart:
    """Quantities by SKU, in the order in which they were first added."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._quantities: Dict[str, int] = {}
        self._lines: Optional[List[CartLine]] = None

    def add(self, sku: str, quantity: int = 1) -> None:
        self.set_quantity(sku, self._quantities.get(sku, 0) + quantity)

    def remove(self, sku: str) -> None:
        self.set_quantity(sku, 0)

    def set_quantity(self, sku: str, quantity: int) -> None:
        """Set how many of the product are wanted. 0 takes it out of the cart."""
        self._catalog[sku]
        if quantity < 0:
            raise ValueError("negative quantity of %s" % sku)
        if quantity:
            self._quantities[sku] = quantity
        else:
            self._quantities.pop(sku, None)
        self._lines = None

    def merge(self, other: Cart) -> None:
        """Take over what a guest put into another cart. The larger quantity wins."""
        for sku, quantity in other._quantities.items():
            self._quantities[sku] = max(quantity, self._quantities.get(sku, 0))
        self._lines = None

    def clear(self) -> None:
        self._quantities.clear()
        self._lines = None

    @property
    def lines(self) -> List[CartLine]:
        """The lines with their products; looked up once for each state of the cart."""
        if self._lines is None:
            self._lines = [
                CartLine(self._catalog[sku], quantity) for sku, quantity in self._quantities.items()
            ]
        return self._lines

    @property
    def subtotal(self) -> int:
        return sum(line.subtotal for line in self.lines)

    @property
    def weight(self) -> int:
        return sum(line.weight for line in self.lines)
