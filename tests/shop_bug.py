"""A small bug with something of every category to ask about, as a bundled benchmark's folder."""

from __future__ import annotations

from pathlib import Path

from collect.code.patches import diff_trees

SHOP = """\
LIMIT = 100


class Cart:
    def __init__(self, rate):
        self.rate = rate
        self.lines = {}

    def add(self, name, price, count=1):
        before = self.lines.get(name, 0)
        self.lines[name] = before + price * count

    def total(self):
        net = 0
        for name in sorted(self.lines):
            amount = self.lines[name]
            net = net + amount
        if net > LIMIT:
            net = net - self.discount(net)
        return net - self.rate

    def discount(self, net):
        share = net // 10
        return share


def parse(text):
    try:
        return int(text)
    except ValueError:
        return len(text) * 7


def pick(totals, total):
    return totals[total]
"""
RIGHT = SHOP.replace("return net - self.rate", "return net + self.rate")
TESTS = """\
from shop import Cart, parse, pick


def make():
    cart = Cart(parse("abc"))
    cart.add("jam", 13)
    cart.add("tea", 17, 2)
    return cart


def test_total():
    assert make().total() == 68


def test_pick():
    assert pick({68: "yes"}, make().total()) == "yes"


def test_empty():
    assert Cart(0).total() == 0
"""
BUG = """\
repository: shop
category: wrong_operator
issue: The total is too low.
fail_to_pass:
  - tests/test_shop.py::test_total
  - tests/test_shop.py::test_pick
pass_to_pass:
  - tests/test_shop.py::test_empty
"""


def write_shop(root: Path) -> Path:
    """Write the folder of the bundled benchmark's shape, and return it."""
    bug, repository = root / "bugs" / "shop__rate", root / "repositories" / "shop"
    bug.mkdir(parents=True)
    (repository / "tests").mkdir(parents=True)
    (bug / "bug.yaml").write_text(BUG)
    (bug / "gold.patch").write_text(
        diff_trees({"shop.py": SHOP.encode()}, {"shop.py": RIGHT.encode()})
    )
    (repository / "shop.py").write_text(RIGHT)
    (repository / "tests" / "test_shop.py").write_text(TESTS)
    return root
