"""Whether the fix is where the answer was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from collect.questions.grounding import changed_by, fix_touched_location
from collect.store.records import Conversation, Role
from tests.format.sessions import Session

SOURCE = """\
class Cart:
    def total(
        self,
        rate,
    ):
        net = 0
        for item in self.items:
            net += item

        return net * rate

    def count(self):
        return len(self.items)


LIMITS = {
    "low": 3,
    "high": 5,
}
OTHER = 4
"""


def patch(line: int) -> str:
    text = SOURCE.splitlines()[line - 1]
    return f"--- a/shop/cart.py\n+++ b/shop/cart.py\n@@ -{line},1 +{line},1 @@\n-{text}\n+changed\n"


def reporting(location: str, read: bool = True) -> Conversation:
    session = Session()
    if read:
        lines = enumerate(SOURCE.splitlines(), 1)
        session.call("read_file", "\n".join(f"{n:>5} {t}" for n, t in lines), path="shop/cart.py")
    return session.answer("There.", location=location)


@pytest.mark.parametrize(
    ("location", "changed", "touched"),
    [
        ("shop/cart.py:10", 10, True),
        ("cart.py:8 in Cart.total", 10, True),
        ("shop/cart.py:3", 10, True),
        ("shop/cart.py:13", 10, False),
        ("shop/cart.py:16", 18, True),
        ("shop/cart.py:16", 20, False),
        ("shop/cart.py:1", 2, False),
        ("shop/cart.py:99", 10, None),
        ("shop/rates.py:10", 10, False),
        ("not reached", 10, None),
    ],
)
def test_the_fix_is_where_the_answer_was(location: str, changed: int, touched: bool | None) -> None:
    assert fix_touched_location(reporting(location), changed_by(patch(changed))) is touched


def test_without_the_source_only_the_line_tells() -> None:
    unread = reporting("shop/cart.py:8", read=False)
    assert fix_touched_location(unread, changed_by(patch(8))) is True
    assert fix_touched_location(unread, changed_by(patch(10))) is None


def test_without_a_patch_or_an_answer_there_is_nothing_to_say() -> None:
    held = reporting("shop/cart.py:8")
    assert fix_touched_location(held, changed_by("")) is None
    assert fix_touched_location(held, changed_by("--- a\n@@ -1 +1 @@\nbroken")) is None
    assert fix_touched_location(replace(held, answer=None), changed_by(patch(8))) is None


def test_a_plan_reports_the_place_that_it_names() -> None:
    plan = "The root cause is at shop/cart.py:8. To fix the bug, consider shop/cart.py:13."
    held = replace(reporting(""), role=Role.INSPECTOR, answer=None, final_answer=plan)
    assert fix_touched_location(held, changed_by(patch(8))) is True
    assert fix_touched_location(held, changed_by(patch(13))) is False
