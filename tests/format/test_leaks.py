"""What a conversation may know that it could not at work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from collect.code.patches import TestFiles
from collect.questions.observations import sets_unnamed_breakpoint
from collect.store.records import Conversation
from format.candidates import Candidate, Outcome
from format.config import FormatConfig, Leak
from sandbox.debugger import Value
from tests.format.sessions import TEST_FILE, Session, see, stop
from tests.records import make_rollout


def labels(conversation: Conversation) -> tuple[Leak, ...]:
    outcome = Outcome.of(make_rollout("cart-1"))
    outcome = replace(outcome, tests=TestFiles([f"{TEST_FILE}::test"]))
    return Candidate(conversation, outcome, FormatConfig(), True, None).leaks


def test_the_conversations_own_model_counts_and_not_its_main_agents() -> None:
    assert labels(replace(Session().answer("Yes."), teacher="oracle")) == (Leak.ORACLE,)
    assert labels(Session().answer("Yes.")) == ()


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

    assert labels(session(TEST_FILE).answer("`total` = 8125")) == (Leak.EXPECTED_VALUE,)
    assert labels(session("shop/cart.py").answer("`total` = 8125")) == ()
    returned = stop(TEST_FILE, return_value=Value("net_of", "int", "8125"))
    assert labels(Session().debug(returned).answer("`net_of` returned 8125")) == ()
    both = session(TEST_FILE).debug(stop()).debug(see(("self.total", "8125")))
    assert labels(both.answer("`total` = 8125")) == ()
