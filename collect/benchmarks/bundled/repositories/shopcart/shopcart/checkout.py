"""From a cart to a priced order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Sequence, Tuple

from .cart import Cart
from .discounts import net_prices
from .inventory import Inventory
from .shipping import ShippingRates
from .tax import tax_by_category


@dataclass(frozen=True)
class Quote:
    """What a cart costs. `goods` is after discounts."""

    subtotal: int
    goods: int
    shipping: int
    taxes: Dict[str, int]

    @property
    def discount(self) -> int:
        return self.subtotal - self.goods

    @property
    def total(self) -> int:
        return self.goods + self.shipping + sum(self.taxes.values())


@dataclass
class Order:
    number: int
    items: List[Tuple[str, int]]
    quote: Quote
    state: str = "placed"


class Checkout:
    """Prices carts, and places, cancels and ships orders."""

    def __init__(self, inventory: Inventory, region: str, shipping=None) -> None:
        self.inventory = inventory
        self.region = region
        self.shipping = shipping or ShippingRates()
        self._orders = 0

    def quote(self, cart: Cart, discounts: Sequence = ()) -> Quote:
        prices = net_prices(cart.lines, discounts)
        goods = sum(prices)
        return Quote(
            subtotal=cart.subtotal,
            goods=goods,
            shipping=self.shipping.cost(cart.weight, goods),
            taxes=tax_by_category(self.region, cart.lines, prices),
        )

    def place(self, cart: Cart, discounts: Sequence = ()) -> Order:
        """Reserve the cart's items and empty it. Raises OutOfStock, and leaves all as it was."""
        quote = self.quote(cart, discounts)
        items = [(line.product.sku, line.quantity) for line in cart.lines]
        self.inventory.reserve(items)
        self._orders += 1
        cart.clear()
        return Order(self._orders, items, quote)

    def cancel(self, order: Order) -> None:
        self._leave_placed(order, "cancelled")
        self.inventory.release(order.items)

    def ship(self, order: Order) -> None:
        self._leave_placed(order, "shipped")
        self.inventory.ship(order.items)

    def _leave_placed(self, order: Order, state: str) -> None:
        if order.state != "placed":
            raise ValueError("order %d is already %s" % (order.number, order.state))
        order.state = state
