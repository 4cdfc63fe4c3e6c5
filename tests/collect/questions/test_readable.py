"""The rule by which answers that stand in the source are dropped."""

from __future__ import annotations

import pytest

from collect.benchmarks.base import Instance
from collect.question_records import Location, ValueAsk, ValueTruth
from collect.questions.building import value_is_readable
from collect.questions.program import Program

TEST = "tests/test_shop.py::test_total"


@pytest.mark.parametrize(
    ("text", "kind", "readable"),
    [
        ("47", "int", False),
        ("{'jam': 13, 'tea': 34}", "dict", False),
        ("100", "int", True),  # a constant of the module
        ("68", "int", True),  # what the test expects
        ("17", "int", True),  # an argument that the test's helper passes on
        ("17.0", "float", True),
        ("'tea'", "str", True),
        ("0", "int", True),
        ("True", "bool", True),
        ("[]", "list", True),
        ("<function f>", "function", True),
    ],
)
def test_values(shop: Instance, text: str, kind: str, readable: bool) -> None:
    program = Program(shop, shop.files)
    place = Location(file="shop.py", line=17, last_line=17, function="Cart.total")
    ask = ValueAsk(expression="net", place=place, hit=2)
    test = TEST.replace("test_total", "make") if text in ("17", "17.0", "'tea'") else TEST
    truth = ValueTruth(type=kind, text=text)
    assert value_is_readable(ask, truth, False, program, test) is readable


def test_a_guess_is_kept_where_the_visit_decides(shop: Instance) -> None:
    program = Program(shop, shop.files)
    place = Location(file="shop.py", line=23, last_line=23, function="Cart.discount")
    ask = ValueAsk(expression="share", place=place, hit=1)
    for text, kind in (("True", "bool"), ("2", "int")):
        truth = ValueTruth(type=kind, text=text)
        assert value_is_readable(ask, truth, False, program, TEST)
    truth = ValueTruth(type="bool", text="True")
    assert not value_is_readable(ask, truth, True, program, TEST)
