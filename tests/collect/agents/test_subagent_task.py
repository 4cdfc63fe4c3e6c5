"""The subagent's first message says what it was given, and nothing is lost in it."""

from __future__ import annotations

import pytest

from collect.agents.subagent_task import (
    DebugSubagentArguments,
    caller_sees,
    read_subagent_task,
    start_places,
    subagent_task,
)


@pytest.mark.parametrize(
    "given",
    [
        DebugSubagentArguments(question="Is tax added?", test="tests/test_tax.py::test_tax"),
        DebugSubagentArguments(question="One\ntwo: Path: x\n\nthree?", test="t", path="a b/c.py"),
        DebugSubagentArguments(question="Why?", test="t", path="a.py", lines=(3, 14)),
        DebugSubagentArguments(question="Why?", test="t", lines=(3,), variables=("rate", "x.y")),
        DebugSubagentArguments(question="Why?\nTest: of taste", test="t", variables=("rate",)),
    ],
)
def test_it_is_read_as_it_was_written(given: DebugSubagentArguments) -> None:
    assert read_subagent_task(subagent_task(given)) == given


def test_each_value_is_on_a_line_of_its_own() -> None:
    given = DebugSubagentArguments(question="Why?", test="a\nb", path="c\nd", lines=(-2,))
    said = given.model_copy(update={"test": "a b", "path": "c d"})
    assert read_subagent_task(subagent_task(given)) == said


@pytest.mark.parametrize("text", ["", "Why does it fail?", "Question: \nTest: t", "Test: t"])
def test_another_form_is_not_read(text: str) -> None:
    assert read_subagent_task(text) is None


QUOTED = "tests/test_a.py:12: in test_a\nx/a.py:30: KeyError\n  at shop.Cart.total(Cart.java:5)"


@pytest.mark.parametrize(
    ("question", "places"),
    [
        ("Is `a` None at x/a.py:3 or src/B.java:14?", ["x/a.py:3", "src/B.java:14"]),
        ("Line 3 of x/a.py runs twice; see ./x/a.py, line 4", ["x/a.py:3", "x/a.py:4"]),
        ("Why lines 3, 5-9 and 12 of x/a.py?", ["x/a.py:3", "x/a.py:5", "x/a.py:12"]),
        ("Is `x/a.py` line 3 reached, or (b.py, lines 7 to 9)?", ["x/a.py:3", "b.py:7"]),
        ("In f (x/a.py), is line 7 reached, or the loop (lines 3-4)?", ["x/a.py:7", "x/a.py:3"]),
        ("In f (x/a.py), is line 7 reached before b.py fails?", []),
        (f"What is `a` at x/a.py:3? It fails:\n{QUOTED}", ["x/a.py:3"]),
        ('Which `key`?\nFile "x/a.py", line 3, in f', []),
        ("x/a.py:3: what is `a` there?", ["x/a.py:3"]),
        ("Are x/a.py:3-5, 8 and 9 hit?", ["x/a.py:3", "x/a.py:8", "x/a.py:9"]),
        ("Is x/a.py:3 hit, and 5 times?", ["x/a.py:3"]),
        ("In x/a.py:3-9, is line 5 hit before b.py:2?", ["x/a.py:3", "x/a.py:5", "b.py:2"]),
        ("See b.py:2; is `x/a.py` line 3 hit, or line 4?", ["b.py:2", "x/a.py:3", "x/a.py:4"]),
        ("Why is line 3 of the test wrong?", []),
        (" ".join(f"a.py:{line}" for line in range(1, 10)), []),
    ],
)
def test_a_session_starts_where_the_question_says(question: str, places: list[str]) -> None:
    asked = DebugSubagentArguments(question=question, test="t")
    assert start_places(asked) == places
    given = asked.model_copy(update={"path": "b.py", "lines": (7,)})
    assert start_places(given) == ["b.py:7"]


def test_lines_without_a_path_are_those_of_the_only_file_in_the_question() -> None:
    asked = DebugSubagentArguments(question="What is `rate` in shop/tax.py?", test="t", lines=(7,))
    assert start_places(asked) == ["shop/tax.py:7"]
    unclear = asked.model_copy(update={"question": "What is `rate` there?"})
    assert start_places(unclear) == []


def test_the_caller_sees_the_last_valid_block_alone() -> None:
    block = (
        "<debug_answer>\n**Answer**: 3\n**Evidence**: x = 3\n**Location**: a.py:3\n</debug_answer>"
    )
    said = f"I saw it.\n<debug_answer>none</debug_answer>\n\n{block}\n\nThat is all."
    assert caller_sees(said) == block
    assert caller_sees("It is 3.") == "It is 3."


def test_lines_without_a_file_are_those_of_the_path() -> None:
    asked = DebugSubagentArguments(question="Are line 3 and c.py:4 hit?", test="t", path="b.py")
    assert start_places(asked) == ["b.py:3", "c.py:4"]
