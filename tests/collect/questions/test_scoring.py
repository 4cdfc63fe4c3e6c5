"""The scorer: right, wrong, near-miss and evasive answers to every kind of question."""

from __future__ import annotations

import pytest

from collect.question_records import Question
from collect.questions.scoring import Reason, score, score_text
from tests.collect.questions.asked import (
    answer,
    assertion,
    key_error,
    post_fix,
    raised,
    reach,
    root_cause,
    value,
)

EVASIVE = (
    "I could not determine this.",
    "The value could not be established; it is unknown.",
    "It is unclear what `total` is, perhaps 40.",
    "I was unable to observe it. `total` = 40",
    "`total` is probably 40.",
)


def verdict(question: Question, text: str, location: str = "") -> Reason:
    return score(question, answer(text, location)).reason


@pytest.mark.parametrize(
    "text",
    [
        "`total` is 40.",
        "40",
        "total = 40",
        "The value of `total` at shop/cart.py:42 is 40 on the 2nd visit.",
        "The second time line 42 is reached, `total` holds 40 (int).",
        "It is `40`.",
        "`total` has the value 40 when Cart.total reaches line 42, while `count` is 3.",
        "At shop/cart.py:42 (hit 2), total == 40.0",
        "After 3 steps I saw that `total` in `Cart.total` evaluates to **40**",
        "Just before it runs, `total` → 40",
        "`total = net + tax` evaluates to 40.",
        "`total` is 40, not 41 as one would expect.",
    ],
)
def test_right_values(text: str) -> None:
    assert verdict(value("40"), text) is Reason.RIGHT


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("`total` is 41.", Reason.WRONG),
        ("`total` is '40'.", Reason.WRONG),
        ("`total` is -40.", Reason.WRONG),
        ("`count` is 40 there.", Reason.MISSING),
        ("`count` = 40 and `total` = 3", Reason.WRONG),
        ("`subtotal` is 40", Reason.MISSING),
        ("`self.total` is 40", Reason.MISSING),
        ("`total` is 40 or 41.", Reason.SEVERAL),
        ("`total` is either 39, 40 or 41.", Reason.SEVERAL),
        ("`total` is 40. On closer look `total` is 41.", Reason.SEVERAL),
        ("Candidates: 38, 39, 40, 41.", Reason.SEVERAL),
        ("It stops at shop/cart.py:40.", Reason.MISSING),
        ("`total` is 40 at shop/cart.py:43.", Reason.WRONG),
        ("`total` is 40 on the third visit.", Reason.WRONG),
        ("At hit 1 of shop/cart.py:42, `total` = 40", Reason.WRONG),
        ("It is reached 40 times.", Reason.MISSING),
        ("Somewhere between 30 and 40.", Reason.SEVERAL),
        *((text, Reason.EVASIVE) for text in EVASIVE),
    ],
)
def test_wrong_values(text: str, reason: Reason) -> None:
    assert verdict(value("40"), text) is reason


@pytest.mark.parametrize(
    ("true", "kind", "text", "reason"),
    [
        ("'Ann'", "str", '`total` is "Ann"', Reason.RIGHT),
        ("'Ann'", "str", "`total` is `Ann`", Reason.RIGHT),
        ("'Ann'", "str", "`total` is 'ann'", Reason.WRONG),
        ("'is 3'", "str", "`total` holds 'is 3'.", Reason.RIGHT),
        ("[1, 2.5]", "list", "`total` is the list [1, 2.50000000001].", Reason.RIGHT),
        ("[1, 2]", "list", "`total` is (1, 2).", Reason.WRONG),
        ("[1, 2]", "list", "The value is `[1, 2]`, a list of 2 items.", Reason.RIGHT),
        ("{'a': 1, 'b': {2, 3}}", "dict", "`total` = {'b': {3, 2}, 'a': 1}", Reason.RIGHT),
        ("{'a': 1}", "dict", "`total` = {'a': 2}", Reason.WRONG),
        ("True", "bool", "`total` is True", Reason.RIGHT),
        ("True", "bool", "`total` is 1", Reason.WRONG),
        ("Decimal('1.50')", "Decimal", "`total` is decimal.Decimal('1.50')", Reason.RIGHT),
        ("datetime.date(2024, 1, 31)", "date", "It is date(2024, 1, 31).", Reason.RIGHT),
        ("<Color.RED: 1>", "Color", "`total` is <Color.RED: 1>", Reason.RIGHT),
        ("<Color.RED: 1>", "Color", "`total` is <Color.BLUE: 2>", Reason.WRONG),
        ("A(k=<K.B: 'b'>, n=1)", "A", "`total` is A(k=<K.B: 'b'>, n=1)", Reason.RIGHT),
        ("A(k=<K.B: 'b'>, n=1)", "A", "`total` is A(k=<K.C: 'c'>, n=1)", Reason.WRONG),
        (
            "defaultdict(<class 'int'>, {})",
            "x",
            "It's defaultdict(<class 'int'>, {})",
            Reason.RIGHT,
        ),
        ("0.1", "float", "`total` is 0.1", Reason.RIGHT),
        ("0.1", "float", "`total` is 0.1001", Reason.WRONG),
        ("set()", "set", "`total` is set() on visit 2.", Reason.RIGHT),
        ("None", "NoneType", "`total` is None there.", Reason.RIGHT),
        ("'/tmp/test_a/x'", "str", "`total` is '/tmp/test_a/x' in test_a.", Reason.RIGHT),
        ("'/tmp/test_a/x'", "str", "`total` is '/tmp/test_b/x' in test_a.", Reason.WRONG),
        ("<T.test_b.<locals>.S n=1>", "S", "`total` = <T.test_b.<locals>.S n=1>.", Reason.RIGHT),
        ("<T.test_b.<locals>.S n=1>", "S", "`total` = <T.test_c.<locals>.S n=1>.", Reason.WRONG),
    ],
)
def test_values_of_all_kinds(true: str, kind: str, text: str, reason: Reason) -> None:
    assert verdict(value(true, kind), text) is reason


def test_values_without_a_form_of_their_own() -> None:
    row = value("mon,A,100", "Row", expression="current")
    assert verdict(row, "At the second visit, current = mon,A,100.") is Reason.RIGHT
    assert verdict(row, "At the second visit, current = mon,A,100,7.") is Reason.SEVERAL
    assert verdict(row, "At the second visit, current = mon,B,100.") is Reason.WRONG


def test_attributes_and_entries_by_their_whole_name() -> None:
    limit = value("5", expression="self.limit")
    assert verdict(limit, "`self.limit` is 5") is Reason.RIGHT
    assert verdict(limit, "`self.limit_of` is 5") is Reason.MISSING
    entry = value("5", expression="stock['jam']")
    assert verdict(entry, "`stock['jam']` is 5, `stock['mug']` is 2") is Reason.RIGHT
    assert verdict(entry, "`stock['mug']` is 5") is Reason.MISSING


@pytest.mark.parametrize(
    ("text", "location", "reason"),
    [
        ("KeyError, raised at shop/rates.py:18 in Rates.of", "", Reason.RIGHT),
        (
            "A `KeyError` comes from rates.py:17, called from tests/test_cart.py:9.",
            "",
            Reason.RIGHT,
        ),
        ("The test dies of a KeyError.", "shop/rates.py:17", Reason.RIGHT),
        ("KeyError on line 19 of shop/rates.py.", "tests/test_cart.py:9", Reason.RIGHT),
        ("Not an AssertionError: it is a KeyError, shop/rates.py:17.", "", Reason.RIGHT),
        ("ValueError, raised at shop/rates.py:18", "", Reason.WRONG),
        ("KeyError, raised at shop/rates.py:20", "", Reason.WRONG),
        ("KeyError, raised at shop/cart.py:18", "", Reason.WRONG),
        ("KeyError or IndexError, at shop/rates.py:18", "", Reason.SEVERAL),
        ("KeyError, at shop/rates.py:18 or shop/cart.py:42", "", Reason.SEVERAL),
        ("It fails at shop/rates.py:18", "", Reason.MISSING),
        ("A KeyError is raised.", "", Reason.MISSING),
        (
            "KeyError, raised at shop/rates.py:18. Why the rate is missing is not established.",
            "",
            Reason.RIGHT,
        ),
        ("I could not determine which exception it is.", "shop/rates.py:17", Reason.EVASIVE),
    ],
)
def test_exceptions(text: str, location: str, reason: Reason) -> None:
    assert verdict(key_error(), text, location) is reason


def test_exceptions_of_the_program_and_their_messages() -> None:
    text = "`NoRate` (no KeyError for 'DE') is raised at shop/rates.py:17"
    assert verdict(raised(), text) is Reason.RIGHT
    text = "The exception is shop.errors.NoRate; it comes from shop/rates.py:17."
    assert verdict(raised(), text) is Reason.RIGHT
    assert verdict(raised(), "A NoTax is raised at shop/rates.py:17.") is Reason.MISSING


@pytest.mark.parametrize(
    ("reached", "text", "reason"),
    [
        (True, "Yes, shop/cart.py:42 is reached.", Reason.RIGHT),
        (True, "Execution does reach line 42, in Cart.total.", Reason.RIGHT),
        (True, "Line 42 is hit by the test.", Reason.RIGHT),
        (True, "No, line 42 is not reached.", Reason.WRONG),
        (True, "Line 42 is never executed.", Reason.WRONG),
        (True, "Yes and no: line 42 is not reached.", Reason.SEVERAL),
        (True, "Cart.total starts at shop/cart.py:40.", Reason.MISSING),
        (True, "It depends on the input.", Reason.EVASIVE),
        (True, "I could not tell whether it is reached.", Reason.EVASIVE),
        (False, "No. The branch is not taken: execution runs on at line 44.", Reason.RIGHT),
        (False, "No, the test passes line 41 and returns; line 42 is never hit.", Reason.RIGHT),
        (False, "Line 42 isn't executed in this run.", Reason.RIGHT),
        (False, "It is unreachable here.", Reason.RIGHT),
        (False, "Yes, it is executed.", Reason.WRONG),
    ],
)
def test_reachability(reached: bool, text: str, reason: Reason) -> None:
    assert verdict(reach(reached), text) is reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Yes, it is reached 3 times.", Reason.RIGHT),
        ("3 times", Reason.RIGHT),
        ("Line 42 is executed three times.", Reason.RIGHT),
        ("Yes, it is reached 2 times.", Reason.WRONG),
        ("Yes, it is reached.", Reason.MISSING),
        ("Reached 3 times, or 4 times.", Reason.SEVERAL),
        ("It is never reached.", Reason.WRONG),
    ],
)
def test_counts(text: str, reason: Reason) -> None:
    assert verdict(reach(True, 3, counted=True), text) is reason


def test_a_count_of_none() -> None:
    assert verdict(reach(False, 0, counted=True), "No, never: it is hit 0 times.") is Reason.RIGHT
    assert verdict(reach(False, 0, counted=True), "It is reached once.") is Reason.WRONG


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("The assert at tests/test_cart.py:9 fails: actual 41, expected 42.", Reason.RIGHT),
        ("tests/test_cart.py:9: expected 42 but got 41.", Reason.RIGHT),
        (
            "`assert cart.total([1, 2]) == 42` at test_cart.py:9 fails; it is 41, where 42 was "
            "expected.",
            Reason.RIGHT,
        ),
        ("Line 9 of tests/test_cart.py: `assert 41 == 42`", Reason.RIGHT),
        ("tests/test_cart.py:9 gives 41 instead of 42.", Reason.RIGHT),
        (
            "41 == 42 fails at test_cart.py:9: 41 (actual) against 42 (expected).",
            Reason.RIGHT,
        ),
        ("test_cart.py:9: it is 41 (expected 42).", Reason.RIGHT),
        ("test_cart.py:9: 42 (actual) against 41 (expected).", Reason.WRONG),
        ("tests/test_cart.py:9: expected 41 but got 42.", Reason.WRONG),
        ("tests/test_cart.py:8: expected 42 but got 41.", Reason.WRONG),
        ("tests/test_cart.py:9: expected 42 but got 40.", Reason.WRONG),
        ("tests/test_cart.py:9 fails, 42 was expected.", Reason.MISSING),
        ("tests/test_cart.py:9: got 41.", Reason.MISSING),
        ("I can't say which assertion fails.", Reason.EVASIVE),
    ],
)
def test_assertions(text: str, reason: Reason) -> None:
    assert verdict(assertion(), text) is reason


def test_an_assertion_that_compares_with_nothing() -> None:
    text = "The assertion at tests/test_cart.py:9 fails, its expression is 41."
    assert verdict(assertion(expected=None), text) is Reason.RIGHT


@pytest.mark.parametrize(
    ("text", "location", "reason"),
    [
        ("The wrong value comes from shop/rates.py:18.", "", Reason.RIGHT),
        ("Rates.of looks up the wrong key.", "shop/rates.py:19", Reason.RIGHT),
        ("Cart.total, at shop/cart.py:42, called from shop/cart.py:90", "", Reason.RIGHT),
        ("Rates.of looks up the wrong key, shop/rates.py:30", "", Reason.WRONG),
        ("It is shop/rates.py:18 or shop/tax.py:3.", "", Reason.SEVERAL),
        ("It is shop/rates.py:18 or shop/tax.py:3.", "shop/rates.py:18", Reason.SEVERAL),
        ("Either of shop/rates.py:18, shop/tax.py:3", "shop/rates.py:18", Reason.SEVERAL),
        (
            "`Rates.of`, shop/rates.py:18: it drops the tax, so shop/tax.py:3 adds nothing.",
            "shop/rates.py:18",
            Reason.RIGHT,
        ),
        (
            "`Tax.of`, shop/tax.py:3: it adds nothing, since shop/rates.py:18 drops it.",
            "shop/tax.py:3",
            Reason.WRONG,
        ),
        ("shop/rates.py:18. Inferred: shop/tax.py:3 then adds nothing.", "", Reason.RIGHT),
        ("Inferred: shop/rates.py:18 drops the tax.", "", Reason.EVASIVE),
        ("The cause is in another module.", "", Reason.WRONG),
        ("I could not establish this.", "shop/rates.py:18", Reason.EVASIVE),
    ],
)
def test_root_causes(text: str, location: str, reason: Reason) -> None:
    assert verdict(root_cause(), text, location) is reason


def test_the_right_function_is_a_part() -> None:
    judged = score(root_cause(), answer("`Rates.of` is to blame, at shop/rates.py:30."))
    assert [fact.ok for fact in judged.facts] == [True, False]
    assert judged.share == 0.5


@pytest.mark.parametrize(
    ("passes", "text", "reason"),
    [
        (True, "Yes, the test passes now, and `total` is 40 at shop/cart.py:42.", Reason.RIGHT),
        (True, "The test passes. `total` = 40", Reason.RIGHT),
        (True, "Yes, it does. `total` = 41", Reason.WRONG),
        (True, "No, the test still fails; `total` is 40.", Reason.WRONG),
        (True, "`total` is 40.", Reason.MISSING),
        (True, "The test passes.", Reason.MISSING),
        (False, "No: the test still fails, with `total` = 40.", Reason.RIGHT),
        (False, "It does not pass, `total` is 40.", Reason.RIGHT),
        (False, "The test passes in part, but fails at the end; `total` is 40.", Reason.SEVERAL),
        (
            False,
            "Not yet: it fails. `total` is 40; `tint` is <Tint green='', works='no'>.",
            Reason.RIGHT,
        ),
        (False, "I was unable to verify the fix.", Reason.EVASIVE),
    ],
)
def test_post_fix(passes: bool, text: str, reason: Reason) -> None:
    assert verdict(post_fix(passes), text) is reason


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        *(pytest.param(text * 50_000, marks=pytest.mark.slow) for text in ("{", "f(", "9")),
    ],
)
def test_an_endless_answer_is_wrong_and_soon_read(text: str) -> None:
    digits = "9" * 5_000
    asked = value("40"), reach(True, 3, counted=True)
    for question in asked:
        assert verdict(question, text, f"cart.py:{digits}") is not Reason.RIGHT
        told = f"shop/cart.py:{digits}, {digits} times, hit {digits}"
        assert verdict(question, told) is not Reason.RIGHT


def test_no_answer_block() -> None:
    assert score_text(value("40"), "`total` is 40").reason is Reason.NO_ANSWER
    block = (
        "<debug_answer>\n**Question**: ?\n**Answer**: `total` is 40\n**Evidence**: total = 40\n"
        "**Location**: shop/cart.py:42\n</debug_answer>"
    )
    assert score_text(value("40"), block).correct
