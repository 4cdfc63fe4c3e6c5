"""Three runtime questions about the bug of `tests.shop_bug`, made by hand."""

from __future__ import annotations

from collect.benchmarks.base import Instance
from collect.question_records import (
    Category,
    Location,
    Question,
    ReachAsk,
    ReachTruth,
    ValueAsk,
    ValueTruth,
)
from tests.collect.questions.asked import question


def shop_questions(shop: Instance) -> list[Question]:
    """About the shop's failing test."""
    place = Location(file="shop.py", line=18, last_line=18, function="Cart.total")
    about = {
        "benchmark": shop.benchmark,
        "instance_id": shop.id,
        "instance_hash": shop.hash,
        "test": "tests/test_shop.py::test_total",
    }
    value = question(
        Category.LOCAL,
        ValueAsk(expression="net", place=place, hit=1),
        ValueTruth(type="int", text="47"),
    )
    earlier = Location(file="shop.py", line=17, last_line=17, function="Cart.total")
    second = question(
        Category.LOCAL,
        ValueAsk(expression="net", place=earlier, hit=2),
        ValueTruth(type="int", text="13"),
    )
    reached = question(
        Category.REACHABILITY, ReachAsk(place=place), ReachTruth(reached=True, count=None)
    )
    told = {
        "net": (value, "What is `net` at shop.py:18?"),
        "reached": (reached, "Is shop.py:18 reached?"),
        "second": (second, "What is `net` at shop.py:17 at its second time?"),
    }
    return [
        each.model_copy(update=about | {"id": name, "question": text})
        for name, (each, text) in told.items()
    ]
