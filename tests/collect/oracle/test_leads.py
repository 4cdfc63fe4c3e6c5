"""Ways through a program by the names in its source."""

from __future__ import annotations

from collect.code.source import Place
from collect.oracle.root_cause import Leads

FILES = {
    "shop/cart.py": b"""\
LIMITS = {"small": 3}


class Cart:
    def __init__(self, rates):
        self.rates = rates

    def total(self):
        return self.rates.of("tea")  # not by largest()


def largest():
    return LIMITS["small"]
""",
    "shop/rates.py": b"""\
class Rates:
    def of(self, name):
        return self.found(name)

    def found(self, name):
        return len(name)
""",
    "tests/test_cart.py": b"""\
def test_total(rates):
    assert Cart(rates).total() == 3


def test_limit():
    assert largest() == 3
""",
    "Notes.java": b"class Notes { int total() { return found(); } }",
}
LEADS = Leads(FILES, "shop/cart.py")
[TEST] = LEADS.named("test_total")


def way(path: str, line: int) -> list[str]:
    goal = LEADS.code_at(Place(path, line, ""))
    return [code.name for code in LEADS.way([TEST], goal, ())]


def test_each_names_the_next() -> None:
    assert way("shop/rates.py", 6) == ["test_total", "Cart.total", "Rates.of", "Rates.found"]


def test_a_constructor_is_named_by_its_class() -> None:
    assert way("shop/cart.py", 6) == ["test_total", "Cart.__init__"]
    assert [code.name for code in LEADS.named("Cart")] == ["Cart.__init__"]


def test_comments_lead_nowhere() -> None:
    assert way("shop/cart.py", 13) == []


def test_a_statement_of_a_module_is_named_by_what_it_assigns() -> None:
    [limit] = LEADS.named("test_limit")
    goal = LEADS.code_at(Place("shop/cart.py", 1, ""))
    assert [code.word for code in LEADS.way([limit], goal, ())] == [
        "test_limit",
        "largest",
        "LIMITS",
    ]


def test_what_is_ruled_out_is_gone_around() -> None:
    goal = LEADS.code_at(Place("shop/rates.py", 6, ""))
    assert LEADS.way([TEST], goal, LEADS.named("of")) == []


def test_other_names_are_those_with_one_meaning() -> None:
    assert [code.name for code in LEADS.others(TEST)] == ["Cart.__init__", "Cart.total"]
