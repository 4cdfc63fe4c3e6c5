"""Parsing the subagent's answer block."""

from dataclasses import replace

import pytest

from collect.agents.subagent_task import parse_answer
from collect.store.records import DebugAnswer

BLOCK = """\
<debug_answer>
**Question**: What is `rate`?
**Answer**: It is 0.19.
**Evidence**: rate = 0.19
cart = Cart(2 items)
**Location**: shop/cart.py:42
</debug_answer>"""
PARSED = DebugAnswer(
    "What is `rate`?", "It is 0.19.", "rate = 0.19\ncart = Cart(2 items)", "shop/cart.py:42"
)


def test_block_within_other_text() -> None:
    assert parse_answer(f"I have seen enough.\n{BLOCK}\nThat is all.") == PARSED


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("**", ""),
        lambda text: text.replace("**Question**:", "**Question:**"),
        lambda text: text.replace("**Answer**", "- **Answer**"),
        lambda text: text.lower().replace("cart(", "Cart(").replace("what", "What"),
        lambda text: text.replace("\n", "\n  "),
    ],
)
def test_spellings_of_the_labels(change: object) -> None:
    assert callable(change)
    parsed = parse_answer(change(BLOCK))
    assert parsed is not None
    assert parsed.location == PARSED.location


def test_evidence_may_hold_lines_that_look_like_labels() -> None:
    text = BLOCK.replace("cart = Cart(2 items)", "answer: 42")
    parsed = parse_answer(text)
    assert parsed is not None
    assert parsed.answer == "It is 0.19."
    assert parsed.evidence == "rate = 0.19\nanswer: 42"


def test_last_block_counts() -> None:
    parsed = parse_answer(BLOCK + BLOCK.replace("0.19", "0.07"))
    assert parsed is not None
    assert parsed.answer == "It is 0.07."


def test_the_question_may_be_missing() -> None:
    text = BLOCK.replace("**Question**: What is `rate`?\n", "")
    assert parse_answer(text) == replace(PARSED, question="")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The rate is 0.19.",
        BLOCK.replace("</debug_answer>", ""),
        BLOCK.replace("**Evidence**: rate = 0.19\n", ""),
        BLOCK.replace("It is 0.19.", ""),
        BLOCK.replace("It is 0.19.", "..."),
        BLOCK.replace("rate = 0.19\ncart = Cart(2 items)", ""),
        BLOCK.replace("rate = 0.19\ncart = Cart(2 items)", "-"),
    ],
)
def test_malformed_blocks_are_no_answer(text: str) -> None:
    assert parse_answer(text) is None


def test_a_value_without_letters_is_an_answer() -> None:
    parsed = parse_answer(BLOCK.replace("It is 0.19.", "`[]`"))
    assert parsed is not None
    assert parsed.answer == "`[]`"


def test_a_repeated_opening_tag_is_read_at_once() -> None:
    assert parse_answer("<debug_answer>" * 100_000) is None
    assert parse_answer("<debug_answer>" * 3 + BLOCK) == PARSED
