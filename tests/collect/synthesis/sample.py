"""A small project with tests, for the factory to break."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from collect.benchmarks.workspace import write_folder

STOCK = '''\
"""A stock of things."""


class Stock:
    """How many of each thing there are."""

    def __init__(self, counts=None, limit=10):
        self.counts = dict(counts or {})
        self.limit = limit
        self._total = None

    @property
    def total(self):
        if self._total is None:
            self._total = sum(self.counts.values())
        return self._total

    def add(self, name, count=1):
        new = self.counts.get(name, 0) + count
        if new > self.limit:
            raise ValueError(f"too many of {name}")
        self.counts[name] = new
        self._total = None

    def take(self, name, count=1):
        left = self.counts[name] - count
        if left < 0:
            raise ValueError(f"not enough of {name}")
        if left == 0:
            del self.counts[name]
        else:
            self.counts[name] = left
        self._total = None


def unused(things):
    return sorted(things)[-1]
'''
PRICES = """\
from shop.stock import Stock


def price(cents, count, discount=0.0):
    full = cents * count
    return round(full - full * discount)


def value(stock, prices):
    worth = 0
    for name, count in stock.counts.items():
        worth += price(prices[name], count)
    return worth


def cheapest(prices, count=2):
    ranked = sorted(prices, key=prices.get)
    return ranked[:count]


def copy_of(stock):
    return Stock(stock.counts, stock.limit)
"""
STOCK_TESTS = """\
import pytest

from shop.stock import Stock


@pytest.mark.parametrize("count", [1, 2, 3])
def test_adding(count):
    stock = Stock()
    stock.add("pen", count)
    assert stock.counts == {"pen": count}


def test_total_follows():
    stock = Stock({"pen": 2})
    assert stock.total == 2
    stock.add("ink")
    assert stock.total == 3
    stock.take("pen")
    assert stock.total == 2


def test_limit():
    stock = Stock(limit=2)
    stock.add("pen", 2)
    with pytest.raises(ValueError, match="too many"):
        stock.add("pen")


def test_taking_the_last():
    stock = Stock({"pen": 1})
    stock.take("pen")
    assert "pen" not in stock.counts


def test_taking_too_many():
    with pytest.raises(ValueError, match="not enough"):
        Stock({"pen": 1}).take("pen", 2)
"""
PRICES_TESTS = """\
from shop.prices import cheapest, copy_of, price, value
from shop.stock import Stock


def test_price():
    assert price(100, 3) == 300


def test_discount():
    assert price(100, 3, 0.5) == 150


def test_value():
    assert value(Stock({"pen": 2, "ink": 1}), {"pen": 100, "ink": 250}) == 450


def test_cheapest():
    assert cheapest({"pen": 3, "ink": 1, "pad": 2}) == ["ink", "pad"]


def test_a_copy_is_its_own():
    stock = Stock({"pen": 1})
    copy_of(stock).add("pen")
    assert stock.counts == {"pen": 1}
"""
FILES: Mapping[str, str] = {
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1.0"\nlicense = "MIT"\n',
    "src/shop/__init__.py": "",
    "src/shop/stock.py": STOCK,
    "src/shop/prices.py": PRICES,
    "tests/test_stock.py": STOCK_TESTS,
    "tests/test_prices.py": PRICES_TESTS,
}


def write_project(folder: Path, files: Mapping[str, str] = FILES) -> Path:
    """The project in a folder."""
    write_folder(folder, {path: text.encode() for path, text in files.items()})
    return folder
