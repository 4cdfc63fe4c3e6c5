"""What a conversation may know that it could not at work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collect.code.patches import TestFiles
from collect.questions.grounding import Grounding, ground
from collect.questions.observations import sets_unnamed_breakpoint
from collect.store.records import Role
from format.leaks import Leak, gold_lines, leaks_of
from sandbox.debugger import Value
from tests.format.sessions import TEST_FILE, Session, see, stop

GOLD = """\
--- a/shop/cart.py
+++ b/shop/cart.py
@@ -40,3 +40,5 @@
     def total(self):
-        return rate * total
+        scale = self.scale_of(rate)
+        return scale * total
+        pass
     def other(self):
"""
NEW = "scale = self.scale_of(rate)"


def labels(session: Session, answer: str = "Yes.", role: Role = Role.DEBUG_SUBAGENT) -> set[Leak]:
    conversation = session.answer(answer)
    object.__setattr__(conversation, "role", role)
    grounding = ground(conversation, TestFiles([f"{TEST_FILE}::test"]))
    return set(leaks_of(conversation, grounding, gold_lines(GOLD)))


def test_only_lines_that_tell_something_are_of_the_gold_patch() -> None:
    assert gold_lines(GOLD) == {NEW, "return scale * total"}
    assert gold_lines("no patch at all\n@@ -1 +1 @@") == frozenset()


def test_a_line_of_the_gold_patch_is_quoted_before_it_was_seen() -> None:
    called = Session().call("debug_inspect", "0.25", expression=f"{NEW}\n")
    assert labels(called) == {Leak.GOLD_PATCH}
    assert labels(Session().call("grep", "", saying=f"Use `{NEW}`.")) == {Leak.GOLD_PATCH}
    seen = Session().call("grep", f"cart.py:9:    {NEW}").call("grep", "", saying=NEW)
    assert labels(seen) == set()
    assert labels(Session(f"Question: why not {NEW}?").call("grep", "", saying=NEW)) == set()


def test_who_edits_may_come_to_the_same_line() -> None:
    edit = Session().call("edit_file", "Edited.", new_string=f"        {NEW}")
    assert labels(edit, role=Role.MAIN) == set()


def test_without_the_gold_patch_nothing_is_judged() -> None:
    conversation = Session().call("grep", "", saying=NEW).answer("Yes.")
    assert leaks_of(conversation, Grounding(), None) == ()


def test_the_conversations_own_model_counts_and_not_its_main_agents() -> None:
    conversation = replace(Session().answer("Yes."), teacher="oracle")
    assert leaks_of(conversation, Grounding(), None) == (Leak.ORACLE,)


@pytest.mark.parametrize(
    ("task", "arguments", "expected"),
    [
        ("Where does it fail?", {"location": "shop/cart.py:42"}, True),
        ("Where does it fail?", {"breakpoints": ["total", "shop/cart.py:42"]}, True),
        ("Where does it fail?", {"location": "Cart.total"}, False),
        ("What is `rate` at shop/cart.py:42?", {"location": "shop/cart.py:50"}, False),
        ("from shop.cart import Cart", {"location": "shop/cart.py:42"}, False),
        ("at shop.Cart.total(Cart.java:9)", {"location": "src/shop/Cart.java:9"}, False),
    ],
)
def test_breakpoints_in_files_that_nothing_has_named(
    task: str, arguments: dict[str, Any], expected: bool
) -> None:
    session = Session(task).call("debug_breakpoint", "Breakpoint set: shop/cart.py:42", **arguments)
    assert sets_unnamed_breakpoint(session.answer("Yes.")) is expected
    shown = Session(task).call("grep", "shop/cart.py:42: total", pattern="total")
    shown.call("debug_breakpoint", "Breakpoint set", **arguments)
    assert not sets_unnamed_breakpoint(shown.answer("Yes."))


def test_a_value_read_in_the_test_alone() -> None:
    def session(file: str) -> Session:
        return Session().debug(stop(file)).debug(see(("total", "8125")))

    assert labels(session(TEST_FILE), "`total` = 8125") == {Leak.EXPECTED_VALUE}
    assert labels(session("shop/cart.py"), "`total` = 8125") == set()
    returned = stop(TEST_FILE, return_value=Value("net_of", "int", "8125"))
    assert labels(Session().debug(returned), "`net_of` returned 8125") == set()
    both = session(TEST_FILE).debug(stop()).debug(see(("self.total", "8125")))
    assert labels(both, "`total` = 8125") == set()
