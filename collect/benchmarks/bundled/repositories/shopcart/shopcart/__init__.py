"""A small shop: catalog, stock, cart, discounts, tax, shipping and checkout.

Money is in whole cents, weight in grams.
"""

from .cart import Cart
from .catalog import Catalog, Product
from .checkout import Checkout, Order, Quote
from .discounts import BuyXGetY, Coupon, PercentOff
from .inventory import Inventory, OutOfStock

__all__ = [
    "BuyXGetY",
    "Cart",
    "Catalog",
    "Checkout",
    "Coupon",
    "Inventory",
    "Order",
    "OutOfStock",
    "PercentOff",
    "Product",
    "Quote",
]
