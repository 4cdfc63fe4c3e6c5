"""What an answer states, against what its conversation was given and has seen."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collect.agents.subagent_task import DebugSubagentArguments, subagent_task
from collect.code.patches import TestFiles
from collect.questions.grounding import ClaimKind, Support, ground
from collect.store.records import Conversation, Role
from sandbox.debugger import Action, DebugEvent, Hit, State, Value
from tests.format.sessions import TEST_FILE, Session, raised, see, stack, stop

OBSERVED, GIVEN, UNGROUNDED = Support.OBSERVED, Support.GIVEN, Support.UNGROUNDED
TESTS = TestFiles([f"{TEST_FILE}::test"])


def investigated(answer: str, evidence: str = "none", location: str = "none") -> Conversation:
    session = Session()
    session.call(
        "read_file", "   10 def tax(rate):\n   11     return rate / 100", path="shop/tax.py"
    )
    session.debug(stop())
    session.debug(see(("rate", "0.25"), ("self.items", "[('pen', 3), ('ink', 12)]"), ("n", "0")))
    session.debug(see(("price is None", "True"), ("cart", "<Cart test_x count=0 keys>")))
    fields = see(("left", "8"), ("['jam']", "6"), action=Action.FIELDS)
    session.debug(replace(fields, arguments='{"expression": "self.stock"}'))
    session.debug(see(("point", "Point(x=5, y=7)"), ("(low, high)", "(2, 30)")))
    session.debug(see(("[len(a) - len(b), a is c]", "[41, True]")))
    session.debug(see(("self", "<shop.cart.Cart at 0x7f01>"), action=Action.EVALUATE))
    session.debug(stack(("shop/cart.py", 42, "Cart.total"), (TEST_FILE, 9, "test")))
    session.debug(see(("codes", "{'may': 31, 'note': 'a\\nbig sale'}"), ("bag", "Bag{size=97}")))
    session.debug(see(("price(item, vat=19)", "'119'"), ("boxes", "[1, <shop.Box object at 0x9>]")))
    session.debug(raised("KeyError", "'autumn'"))
    return session.answer(answer, evidence, location)


def supports(text: str) -> dict[str, Support]:
    found = ground(investigated(text), TESTS).claims
    return {claim.text: claim.grounded for claim in found}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`rate` = 0.25", {"rate = 0.25": OBSERVED}),
        ("`rate` is 0.2500000001 there.", {"rate = 0.2500000001": OBSERVED}),
        ("`rate` is 0.75 there.", {"rate = 0.75": UNGROUNDED}),
        ("`self.items` is [('pen', 3)].", {"self.items = [('pen', 3)]": UNGROUNDED}),
        ("`items` = [('pen', 3),  ('ink', 12)]", {"items = [('pen', 3),  ('ink', 12)]": OBSERVED}),
        ("`n` = 0", {"n = 0": OBSERVED}),
        ("`items[0][1]` = 3", {"items[0][1] = 3": OBSERVED}),
        ("`items[0]` = ('pen', 3)", {"items[0] = ('pen', 3)": OBSERVED}),
        ("`len(a) - len(b)` = 41", {"len(a) - len(b) = 41": OBSERVED}),
        ("`len(a) - len(b)` = 1", {"len(a) - len(b) = 1": UNGROUNDED}),
        ("`items[1]` = ('pen', 3)", {"items[1] = ('pen', 3)": UNGROUNDED}),
        ("`self.stock.left` = 8", {"self.stock.left = 8": OBSERVED}),
        ('`self.stock["jam"]` = 6', {'self.stock["jam"] = 6': OBSERVED}),
        ("`point.x` = 5, `point.y` = 5", {"point.x = 5": OBSERVED, "point.y = 5": UNGROUNDED}),
        ("`other_n` = 0", {"other_n = 0": UNGROUNDED}),
        ("`self.names[0]` is 'pen'", {"self.names[0] = 'pen'": OBSERVED}),
        ("`self` is <shop.cart.Cart at 0x99>", {"self = <shop.cart.Cart at 0x99>": OBSERVED}),
        ("where price is None = True", {"price is None = True": OBSERVED}),
        ("where price is None = False", {"price is None = False": UNGROUNDED}),
        ("then max(n, 3) > 2 = True", {"max(n, 3) > 2 = True": UNGROUNDED}),
        ("`cart` = <Cart test_x count=0 keys>", {"cart = <Cart test_x count=0 keys>": OBSERVED}),
        ("It returned False.", {"False": UNGROUNDED}),
        ("It returned True.", {"True": OBSERVED}),
        ("The key 'winter' is missing.", {"'winter'": UNGROUNDED}),
        ("It ends at shop/cart.py:42.", {"shop/cart.py:42": GIVEN}),
        ("It comes from tests/test_cart.py:9.", {"tests/test_cart.py:9": OBSERVED}),
        ("It comes from cart.py:41.", {"cart.py:41": OBSERVED}),
        ("It comes from shop/tax.py:11.", {"shop/tax.py:11": OBSERVED}),
        ("It comes from shop/tax.py:12.", {"shop/tax.py:12": UNGROUNDED}),
        ("in `Cart.total` at cart.py:41", {"cart.py:41": OBSERVED, "Cart.total": OBSERVED}),
        ("in Cart.pay at cart.py:41", {"cart.py:41": OBSERVED, "Cart.pay": UNGROUNDED}),
        ("A KeyError is raised.", {"KeyError": OBSERVED}),
        ('A KeyError, by `x` ("autumn").', {"KeyError": OBSERVED, "autumn": OBSERVED}),
        ('A KeyError, by `x` ("winter").', {"KeyError": OBSERVED, "winter": UNGROUNDED}),
        ("at n = 0, price is None = True", {"n = 0": OBSERVED, "price is None = True": OBSERVED}),
        ("KeyError: 'autumn'.", {"KeyError": OBSERVED, "autumn": OBSERVED, "'autumn'": OBSERVED}),
        ("Exception: KeyError: x is gone", {"KeyError": OBSERVED, "x is gone": UNGROUNDED}),
        ("It is a KeyError: the key is gone", {"KeyError": OBSERVED}),
        ("The value of `rate` in the test is 7 then.", {"rate = 7": UNGROUNDED}),
        ("It is true that `rate` in `Cart.total` evaluates to 0.25", {"rate = 0.25": OBSERVED}),
        ("So it is seen (hit 2).", {}),
        ("ValueError('too small') is raised.", {"ValueError": UNGROUNDED, "too small": UNGROUNDED}),
        ("in `return rate * total`", {}),
        ("in `x = tax(rate)`", {}),
        ("Yes, it is reached 3 times, at hit 2.", {}),
        ("expected 25, got 12", {"25": UNGROUNDED, "12": OBSERVED}),
        ("expected 13, got 12", {"13": UNGROUNDED, "12": OBSERVED}),
        ("The coupon is 'summer'.", {"'summer'": GIVEN}),
        ("`hint` = 77", {"hint = 77": UNGROUNDED}),
        ("a = A(b='p; rate = 0.25; c = 'q'", {"rate = 0.25": OBSERVED, "c = 'q'": UNGROUNDED}),
        ("`rate` = 0.25 and n = 1", {"rate = 0.25": OBSERVED, "n = 1": UNGROUNDED}),
        ("`rate` is 0.25, it should become 'high'.", {"rate = 0.25": OBSERVED}),
        ("self.stock has 'jam': 6", {"self.stock['jam'] = 6": OBSERVED}),
        ("self.stock has 'jam': 7", {"self.stock['jam'] = 7": UNGROUNDED}),
        ("KeyError: 'autumn', raised at shop/cart.py:42",
         {"shop/cart.py:42": GIVEN, "KeyError": OBSERVED, "autumn": OBSERVED,
          "'autumn'": OBSERVED}),
        ("Failure: KeyError: no autumn at shop/cart.py:42",
         {"shop/cart.py:42": GIVEN, "KeyError": OBSERVED, "no autumn": UNGROUNDED}),
        ("So 14 - 3 = 11", {}),
        ("It ends. rate = 0.25", {"rate = 0.25": OBSERVED}),
        ("The row is (2, 30).", {"(2, 30)": OBSERVED}),
        ("The row is (0.25, 12).", {"(0.25, 12)": UNGROUNDED}),
        ("The pair is (8, 6).", {"(8, 6)": OBSERVED}),
        ("`may` = 31, `may` = 32", {"may = 31": OBSERVED, "may = 32": UNGROUNDED}),
        ("The bag's size = 97, size = 96", {"size = 97": OBSERVED, "size = 96": UNGROUNDED}),
        ("With vat=19 it is '119'.", {"vat = 19": OBSERVED, "'119'": OBSERVED}),
        ("The note has 'big sale'.", {"'big sale'": OBSERVED}),
        ("The note has 'ig sale'.", {"'ig sale'": UNGROUNDED}),
        ("`boxes` is [1, <Box>]", {"boxes = [1, <Box>]": OBSERVED}),
        ("`boxes` is [1, <Bin>]", {"boxes = [1, <Bin>]": UNGROUNDED}),
        ("`rate` = 0.25. Inferred: it should be 'high'. `n` = 5.",
         {"rate = 0.25": OBSERVED, "n = 5": UNGROUNDED}),
        ("`rate`, at cart.py:41: `if n is None or not rate:`", {"cart.py:41": OBSERVED}),
        ("version = 1.5.0, share = 1/24", {}),
        ("expected 1.5.0, got 1.4", {"1.4": UNGROUNDED}),
        ("expected 2024-01-12, got 10:12:25", {}),
        ("expected 2.0rc1, got 0x1f, then 12ms", {}),
        ("at cart.py:41 in `if n is None`", {"cart.py:41": OBSERVED}),
        ("at cart.py:41 in `if`", {"cart.py:41": OBSERVED}),
        ("by `for` (cart.py:41)", {"cart.py:41": OBSERVED}),
        ("at cart.py:41 in while, in a switch", {"cart.py:41": OBSERVED}),
        ("at cart.py:41 in the `total = tax(n)` there", {"cart.py:41": OBSERVED}),
        ("at cart.py:41 in `total()`", {"cart.py:41": OBSERVED, "total": OBSERVED}),
        ("in `cart.py` at cart.py:41", {"cart.py:41": OBSERVED}),
        ("`cart.py:41` = 5, `cart.py` is 'x'", {"cart.py:41": OBSERVED, "'x'": UNGROUNDED}),
        ("It stopped at 'shop/cart.py:41'", {"shop/cart.py:41": OBSERVED}),
        ("(`is` gives False), so True = True", {}),
        ("at cart.py:41, inside the loop", {"cart.py:41": OBSERVED}),
        ("at cart.py:41, inside the `pay`", {"cart.py:41": OBSERVED, "pay": UNGROUNDED}),
        ("its name = 'KeyError', of 'autumn'", {"name = 'KeyError'": OBSERVED,
         "KeyError": OBSERVED, "'autumn'": OBSERVED}),
        ("KeyError: 'autumn' was raised at cart.py:41",
         {"cart.py:41": OBSERVED, "KeyError": OBSERVED, "autumn": OBSERVED,
          "'autumn'": OBSERVED}),
        ("`low` = 2, `high` = 31", {"low = 2": OBSERVED, "high = 31": UNGROUNDED}),
        ("a = <A 'long te...  (A, cut); `b` = <B 'x'>  (B)", {"b = <B 'x'>": UNGROUNDED}),
    ],
)  # fmt: skip
def test_each_claim_is_told_apart(text: str, expected: dict[str, Support]) -> None:
    assert supports(text) == expected


def test_the_score_leaves_out_what_was_given() -> None:
    answer = "`rate` = 0.25 and `total` = 99 at shop/cart.py:42"
    grounding = ground(investigated(answer), TESTS)
    assert grounding.counts == {"observed": 1, "given": 1, "ungrounded": 1}
    assert grounding.score == 0.5
    assert ground(investigated("Yes, shop/cart.py:42 is reached."), TESTS).score is None
    assert ground(investigated("Yes."), TESTS).score is None


def test_a_hint_is_given() -> None:
    hints = DebugSubagentArguments(question="?", test="t", path="shop/tax.py", lines=(3, 11))
    answer = Session(subagent_task(hints)).debug(stop(line=11)).answer("At tax.py:11, cart.py:11.")
    assert [claim.grounded for claim in ground(answer, TESTS).claims] == [GIVEN, OBSERVED]


def test_what_stands_inside_a_value_of_the_task_is_given() -> None:
    session = Session("The tokens are \"[NUMERIC(1), 'DOT']\".").debug(stop())
    answer = session.answer("NUMERIC(1) and 'DOT', then NUMERIC(2)")
    assert [c.grounded for c in ground(answer, TESTS).claims] == [GIVEN, GIVEN, UNGROUNDED]


def test_the_texts_that_junit_compares_are_seen_without_its_brackets() -> None:
    message = "expected:<PIER, [3]5 min> but was:<PIER, [4]5 min>"
    session = Session().debug(raised("org.junit.ComparisonFailure", message))
    answer = session.answer("expected 'PIER, 35 min', got 'PIER, 45 min', not 'PIER, 55 min'")
    supported = [claim.grounded for claim in ground(answer, TESTS).claims]
    assert supported == [OBSERVED, OBSERVED, UNGROUNDED]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("assert open_days(log) == EXPECTED[1:]", "assert [] == [8, 9]\n  Right contains 2 more"),
        ("self.assertEqual(open_days(log), EXPECTED[1:])", "Lists differ: [] != [8, 9]\n\nSecond"),
        ("self.assertEqual(open_days(log), EXPECTED[1:])", "[] != [8, 9]"),
    ],
)
def test_the_sides_of_a_failed_assertion_are_seen(line: str, message: str) -> None:
    failed = replace(raised("AssertionError", message), source=("   8  log = []", f"-> 9  {line}"))
    answer = Session().debug(failed).answer("`open_days(log)` = [], `EXPECTED[1:]` = []")
    assert [c.grounded for c in ground(answer, TESTS).claims] == [OBSERVED, UNGROUNDED]


def test_evidence_and_location_are_checked_too() -> None:
    grounding = ground(investigated("Yes.", "`rate` = 4.5", "shop/cart.py:77"), TESTS)
    assert [claim.grounded for claim in grounding.claims] == [UNGROUNDED, UNGROUNDED]


def test_a_claim_says_where_it_was_seen_first() -> None:
    claims = ground(investigated("`rate` = 0.25, then KeyError"), TESTS).claims
    assert {claim.text: claim.where for claim in claims} == {"rate = 0.25": 7, "KeyError": 25}
    assert {claim.kind for claim in claims} == {ClaimKind.VALUE, ClaimKind.EXCEPTION}


@pytest.mark.parametrize(
    ("action", "arguments", "output"),
    [
        (Action.RUN_CODE, {"code": "print(n)"}, "0\n"),
        (Action.RAW, {"command": "p n"}, "0\n"),
        (Action.RUN_CODE, {"code": "print('n =', n)"}, "n = 0\n"),
    ],
)
def test_what_was_printed_is_seen_under_its_name(
    action: Action, arguments: dict[str, str], output: str
) -> None:
    printed = DebugEvent(action, json.dumps(arguments), State.RUNTIME, output=output)
    answer = Session().debug(printed).answer("`n` = 0 and `n` = 1, `m` = 0")
    found = {claim.text: claim.grounded for claim in ground(answer, TESTS).claims}
    assert found == {"n = 0": OBSERVED, "n = 1": UNGROUNDED, "m = 0": UNGROUNDED}


def test_a_printed_text_has_no_quotes() -> None:
    printed = DebugEvent(Action.RAW, '{"command": "print name"}', State.RUNTIME, output="Ann Lee\n")
    answer = Session().debug(printed).answer("`name` is 'Ann Lee'")
    assert [claim.grounded for claim in ground(answer, TESTS).claims] == [OBSERVED]


def test_what_was_watched_and_collected_is_seen() -> None:
    watched = (Value("rate", "", "0.25"), Value("due", "", "6000", failed=True))
    inside = Hit(1, "shop/cart.py", 42, "Cart.total", (Value("net", "", "11"),))
    outside = Hit(1, TEST_FILE, 9, "test", (Value("wanted", "", "12"),))
    session = Session().debug(stop(values=watched)).debug(see(("due", "7000")))
    session.debug(stop(TEST_FILE, 9, "test", collected=(inside, outside), action=Action.COLLECT))
    answer = session.answer("`rate` = 0.25, `due` = 6000, `net` = 11, `wanted` = 12")
    found = {each.text: (each.grounded, each.from_test) for each in ground(answer, TESTS).claims}
    assert found == {
        "rate = 0.25": (OBSERVED, False),
        "due = 6000": (UNGROUNDED, False),
        "net = 11": (OBSERVED, False),
        "wanted = 12": (OBSERVED, True),
    }


def test_only_what_came_before_the_answer_counts() -> None:
    conversation = investigated("`rate` = 0.25")
    seen, answer = conversation.messages[6:8], conversation.messages[-1]
    early = (*conversation.messages[:6], answer, *seen)
    events = tuple(replace(row, message_index=7) for row in conversation.events[1:2])
    late = replace(conversation, messages=early[:7], events=events)
    assert [c.grounded for c in ground(late, TESTS).claims] == [UNGROUNDED]


def test_the_agents_own_words_are_no_observation() -> None:
    session = Session().call("grep", "No matches.", saying="I think `rate` = 9.75.")
    grounding = ground(session.answer("`rate` = 9.75"), TESTS)
    assert [claim.grounded for claim in grounding.claims] == [UNGROUNDED]


def test_a_value_seen_in_a_test_alone_is_marked() -> None:
    session = Session().debug(stop(TEST_FILE, 9, "test")).debug(see(("wanted", "8125")))
    session.debug(stop()).debug(see(("rate", "0.25"), ("both", "4711")))
    session.debug(stack(("shop/cart.py", 42, "Cart.total"), (TEST_FILE, 9, "test")))
    session.debug(see(("both", "4711"), ("due", "6000"), frame=1))
    answer = session.answer("`wanted` = 8125, `rate` = 0.25, `both` = 4711, `due` = 6000")
    marked = {claim.text: claim.from_test for claim in ground(answer, TESTS).claims}
    assert marked == {
        "wanted = 8125": True,
        "rate = 0.25": False,
        "both = 4711": False,
        "due = 6000": True,
    }


@settings(max_examples=40)
@given(st.text("`'\"=[](){}<>.:; \n0aKeyError", max_size=200) | st.text(max_size=200))
def test_any_text_can_be_read(text: str) -> None:
    conversation = Session(text).call("grep", text, pattern=text).answer(text, text, text)
    score = ground(conversation, TESTS).score
    assert score is None or 0 <= score <= 1


def test_of_a_plan_only_the_cause_is_checked() -> None:
    plan = (
        "The root cause of the bug is that `rate` is 0.25. "
        "To fix the bug, consider setting `limit` = 500."
    )
    held = replace(investigated("x"), role=Role.INSPECTOR, answer=None, final_answer=plan)
    assert [c.text for c in ground(held, TESTS).claims] == ["rate = 0.25"]
