"""Tax by region and category."""

from __future__ import annotations

from typing import Dict, Sequence

from .cart import CartLine
from .money import percent_of

RATES: Dict[str, Dict[str, float]] = {
    "DE": {"standard": 19, "food": 7, "books": 7},
    "FR": {"standard": 20, "food": 5.5, "books": 5.5},
    "CH": {"standard": 8.1, "food": 2.6, "books": 2.6},
}


def tax_by_category(
    region: str, lines: Sequence[CartLine], prices: Sequence[int]
) -> Dict[str, int]:
    """The tax due for each category, computed on the sum of the category's net prices."""
    if region not in RATES:
        raise LookupError("no tax rates for region %s" % region)
    bases: Dict[str, int] = {}
    for line, price in zip(lines, prices):
        if price < 0:
            raise ValueError("negative taxable amount for %s: %d" % (line.product.sku, price))
        category = line.product.category
        bases[category] = bases.get(category, 0) + price
    return {name: percent_of(base, RATES[region][name]) for name, base in bases.items()}
