import pytest

from queryfilter import Store

ITEMS = [
    ("mug", "acme", 8, True, ["kitchen"]),
    ("teapot", "acme", 30, False, ["kitchen", "gift"]),
    ("lamp", "lux", 45, True, ["old"]),
    ("Mug XL", "lux", 12, True, ["kitchen", "old"]),
    ("rug", None, 120, False, []),
    ("candle", "lux", None, True, ["gift"]),
]


@pytest.fixture()
def store():
    filled = Store(indexed=["brand", "price"])
    for name, brand, price, paid, tags in ITEMS:
        filled.insert(name=name, brand=brand, price=price, paid=paid, tags=tags)
    return filled


@pytest.fixture()
def names(store):
    def run(text, order="id"):
        return [record["name"] for record in store.query(text, order)]

    return run
