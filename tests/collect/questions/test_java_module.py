"""What is read out of a Java file before it runs."""

from __future__ import annotations

from collect.questions.program import JavaModule

SOURCE = b"""\
package demo;

class Cart {
    static final int LIMIT = 100;
    private int rate;

    int total(int[] prices) {
        int net = 0;
        for (int price : prices) {
            net += price;
        }
        if (net > this.rate) {
            throw new IllegalStateException(
                "too much: " + 7);
        }
        return net - rate;
    }

    String name() {
        return "cart" + 'c';
    }
}
"""


MODULE = JavaModule("src/demo/Cart.java", SOURCE)


def test_statements_of_methods() -> None:
    found = [(s.place.line, s.place.function, s.conditional, s.once) for s in MODULE.statements]
    assert [each for each in found if each[1] == "Cart.total"] == [
        (8, "Cart.total", False, True),
        (9, "Cart.total", False, False),
        (10, "Cart.total", True, True),
        (12, "Cart.total", False, True),
        (13, "Cart.total", True, False),
        (16, "Cart.total", True, True),
    ]
    span = MODULE.at(14)
    assert span is not None
    assert (span.place.line, span.place.last_line) == (13, 14)


def test_what_is_read_and_given() -> None:
    statement = MODULE.at(10)
    assert statement is not None
    assert (statement.assigned, statement.used) == (("net",), ("price",))
    compared = MODULE.at(12)
    assert compared is not None
    assert compared.attributes == ("this.rate",)


def test_literals_of_a_method_and_outside() -> None:
    assert list(MODULE.literals("Cart.total")) == ["100", "0", '"too much: "', "7"]
    assert list(MODULE.literals("Cart.name")) == ["100", '"cart"', "'c'"]
    assert MODULE.raising_lines("Cart.total") == [13]
