"""What can be bought."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Iterable


@dataclass(frozen=True)
class Product:
    sku: str
    name: str
    price: int
    weight: int
    category: str = "standard"


class Catalog:
    """Products by SKU."""

    def __init__(self, products: Iterable[Product]) -> None:
        self._products: Dict[str, Product] = {product.sku: product for product in products}

    def __getitem__(self, sku: str) -> Product:
        try:
            return self._products[sku]
        except KeyError:
            raise LookupError("no product %s" % sku) from None
