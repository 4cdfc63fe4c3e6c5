"""Questions of every kind, made by hand, and answers to them."""

from __future__ import annotations

from collect.question_records import (
    Ask,
    AssertionAsk,
    AssertionTruth,
    Category,
    ExceptionAsk,
    ExceptionTruth,
    Location,
    PostFixAsk,
    PostFixTruth,
    Question,
    ReachAsk,
    ReachTruth,
    RootCauseAsk,
    RootCauseTruth,
    Truth,
    ValueAsk,
    ValueTruth,
)
from collect.store.records import DebugAnswer

TOTAL = Location(file="shop/cart.py", line=42, last_line=42, function="Cart.total")
LOOKUP = Location(file="shop/rates.py", line=17, last_line=19, function="Rates.of")
CHECK = Location(file="tests/test_cart.py", line=9, last_line=9, function="test_total")


def question(category: Category, ask: Ask, truth: Truth) -> Question:
    return Question(
        id="shop.1",
        benchmark="made",
        instance_id="shop",
        instance_hash="0" * 16,
        repository="shop",
        language="python",
        category=category,
        question="?",
        test="tests/test_cart.py::test_total",
        ask=ask,
        truth=truth,
        evidence=(),
    )


def value(text: str, kind: str = "int", expression: str = "total") -> Question:
    ask = ValueAsk(expression=expression, place=TOTAL, hit=2)
    return question(Category.LOCAL, ask, ValueTruth(type=kind, text=text))


def raised() -> Question:
    truth = ExceptionTruth(type="shop.errors.NoRate", message="no KeyError for 'DE'", origin=LOOKUP)
    return question(Category.EXCEPTION, ExceptionAsk(ends_test=True), truth)


def key_error() -> Question:
    truth = ExceptionTruth(type="KeyError", message="'DE'", origin=LOOKUP)
    return question(Category.EXCEPTION, ExceptionAsk(ends_test=True), truth)


def reach(reached: bool, count: int | None = None, counted: bool = False) -> Question:
    ask = ReachAsk(place=TOTAL, count=counted)
    return question(Category.REACHABILITY, ask, ReachTruth(reached=reached, count=count))


def assertion(actual: str = "41", expected: str | None = "42") -> Question:
    truth = AssertionTruth(
        place=CHECK,
        actual=ValueTruth(type="int", text=actual),
        expected=None if expected is None else ValueTruth(type="int", text=expected),
    )
    return question(Category.ASSERTION, AssertionAsk(), truth)


def root_cause() -> Question:
    return question(Category.ROOT_CAUSE, RootCauseAsk(), RootCauseTruth(places=(LOOKUP, TOTAL)))


def post_fix(passes: bool) -> Question:
    ask = PostFixAsk(value=ValueAsk(expression="total", place=TOTAL, hit=1))
    truth = PostFixTruth(passes=passes, value=ValueTruth(type="int", text="40"))
    return question(Category.POST_FIX, ask, truth)


def answer(text: str, location: str = "", evidence: str = "") -> DebugAnswer:
    return DebugAnswer(question="?", answer=text, evidence=evidence, location=location)
