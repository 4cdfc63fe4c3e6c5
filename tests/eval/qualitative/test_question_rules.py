"""Categories of questions: by our own wordings, by realistic ones, and by some held out."""

from __future__ import annotations

import random
import tomllib
from pathlib import Path

import pytest

from collect.oracle.main_agent import EXCEPTION_ORIGIN, ROOT_CAUSE
from collect.question_records import (
    Ask,
    AssertionAsk,
    Category,
    ExceptionAsk,
    Location,
    PostFixAsk,
    ReachAsk,
    RootCauseAsk,
    ValueAsk,
)
from collect.questions.writing import word
from eval.qualitative.question_rules import DESCRIPTIONS, categorize
from tests.records import QUESTION

FOLDER = Path(__file__).parent
PLACE = Location(file="shop/cart.py", line=42, last_line=42, function="Cart.total")
CHANGED = "`Cart.total` in shop/cart.py"


def value(expression: str, hit: int = 1, after: bool = False) -> ValueAsk:
    return ValueAsk(expression=expression, place=PLACE, hit=hit, after=after)


ASKS: list[tuple[Category, Ask]] = [
    *((Category.LOCAL, value("rate", hit, after)) for hit in (1, 3) for after in (False, True)),
    *(
        (Category.ATTRIBUTE, value(name, hit))
        for name in ("self.rate", "item.price", "prices['tea']", "lines[0]")
        for hit in (1, 2)
    ),
    (Category.EXCEPTION, ExceptionAsk(ends_test=True)),
    (Category.EXCEPTION, ExceptionAsk(ends_test=False)),
    (Category.EXCEPTION, ExceptionAsk(ends_test=False, function="Cart.total")),
    (Category.ASSERTION, AssertionAsk()),
    (Category.REACHABILITY, ReachAsk(place=PLACE)),
    (Category.REACHABILITY, ReachAsk(place=PLACE, count=True)),
    (Category.ROOT_CAUSE, RootCauseAsk()),
    (Category.POST_FIX, PostFixAsk(value=value("rate"))),
]


@pytest.mark.parametrize(
    "source", ["net = price * rate", "raise ValueError(rate)", "if rate: return"]
)
@pytest.mark.parametrize(("category", "ask"), ASKS)
def test_every_wording_of_ours(category: Category, ask: Ask, source: str) -> None:
    edits = (CHANGED,) if category is Category.POST_FIX else ("", CHANGED)
    for changed in edits:
        for seed in range(40):
            question = word(ask, random.Random(seed), source=source, changed=changed)
            assert categorize(question) is category, question


def test_what_the_scripted_main_agent_asks() -> None:
    for question in ROOT_CAUSE:
        assert categorize(question) is Category.ROOT_CAUSE
    for question in EXCEPTION_ORIGIN:
        assert categorize(question.format(exception="KeyError")) is Category.EXCEPTION


def accuracy(name: str) -> tuple[int, int]:
    """How many questions of a file the rules get right, and how many it has."""
    texts = tomllib.loads((FOLDER / f"{name}_questions.toml").read_text("utf-8"))
    found = [categorize(text) == category for category in texts for text in texts[category]]
    assert set(texts) == set(Category)
    return sum(found), len(found)


def test_realistic_questions_that_the_rules_were_fitted_to() -> None:
    assert accuracy("realistic") == (146, 147)


def test_held_out_questions() -> None:
    assert accuracy("held_out") == (35, 42)


def test_an_assertion_can_be_only_the_place() -> None:
    assert categorize(QUESTION) is Category.ATTRIBUTE


@pytest.mark.parametrize("text", ["", "Hello.", "Go on."])
def test_what_is_no_question_has_no_category(text: str) -> None:
    assert categorize(text) is None


def test_every_category_is_described_as_in_the_paper() -> None:
    assert list(DESCRIPTIONS) == list(Category)
