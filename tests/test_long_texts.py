"""What reads a model's, a program's or a server's text takes time in proportion to its length.

Each reader gets texts made of one repeated piece, of two sizes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest

from collect.agents.baselines.autosd import UnreadableExperiment, parse_experiment, sections
from collect.agents.baselines.ldb import wrong_blocks
from collect.agents.debug_tools import breakpoint_request
from collect.agents.file_tools import read_failure
from collect.agents.inspectcoder.code_blocks import fenced_blocks, program_of
from collect.agents.inspectcoder.react import UnreadableAction, action_block, parse_actions
from collect.agents.subagent_task import (
    DebugSubagentArguments,
    caller_sees,
    read_subagent_task,
    start_places,
)
from collect.benchmarks.pytest_run import section_of
from collect.benchmarks.swe_bench.log_parsers import LOG_PARSERS
from collect.code.patches import PatchError, changed_lines, renamed_files
from collect.models.tool_parsing import parse_calls
from collect.questions.claims import committed, counts, exceptions, places, visits
from collect.questions.comparing import parse_value, same_text
from collect.questions.grounding import claims_in
from collect.questions.observations import Observations, Sighting, last_part
from collect.rollouts.rows import patch_marks
from collect.store.normalising import normalised
from format.contamination import words
from format.duplicates import shingles
from sandbox.debugger.rendering import read_state
from sandbox.java.lookup import outline
from tests.test_patterns import GROWTH, seconds_of

SIZE = 3_000
LEAST = 0.003
"""Seconds; a reader that takes less is not measured with more."""
PIECES = (
    *("a", "1", "_", " ", "-", ".", "\n", "\t", "(", "[", "{", "<", "'", '"', "`", "#", "\\'"),
    *("a ", "a.", "a,", "a:", "a\n", "1, ", "1.", "[]", "'a', ", "`x` is 1, ", "x = [", "x = "),
    *(
        "__eq__(",
        "__eq__(#",
        "__eq__=lambda ",
        "def __eq__(a):\n",
        "boolean equals(",
        "__eq__(a):#",
    ),
    *("a.py:1 ", "a.py:1\n", "lines 1, ", 'File "a.py", line 1\n', "at 0x1 ", "expected:<", "or "),
    *("FAILED x\n", "PASSED [", " ... ", "x ... Testing against Django installed in \n", " x.py:"),
    *(
        "<tool_call>",
        "</tool_call>",
        '<tool_call>{"name": ',
        "<tool_call>a",
        "<function=a>",
        '<function=a>{"',
        "<function=a><parameter=b>",
        "</parameter>",
        '<invoke name="a">',
        "<arg_key>a</arg_key><arg_value>",
        "[TOOL_CALLS]",
        "[TOOL_CALLS]{",
        "[TOOL_CALLS][a(",
        "[TOOL_CALLS]a[ARGS]{",
        "<|python_tag|>a(b=",
        "to=functions.a",
        "</think>",
        "```\n",
        "```python\n",
        "### ACTION\n",
    ),
    *("<debug_answer>", "</debug_answer>", "answer: x\n", "set_breakpoint(", "set_breakpoint(1)\n"),
    *("KeyError('\\a", "KeyError: x ", "Experiment: ", "REPLACE(1, 'a', ", "b 1 ;; ", "BLOCK-1 "),
    *("diff --git a/x b/x\n", 'diff --git "a/', "@@ -1,1 +1,1 @@\n", "--- a/x\n+++ b/x\n", "+\n"),
    *("[killed after 1 s", "uid=0(", "a() ", "____ x ____\n", "= 1 a =\n", "\\\n", "\0"),
)


def patch_of(text: str, suffix: str) -> str:
    lines = text.split("\n")
    head = f"--- /dev/null\n+++ b/a{suffix}\n@@ -0,0 +1,{len(lines)} @@\n"
    return head + "".join(f"+{line}\n" for line in lines)


def question(text: str) -> DebugSubagentArguments:
    return DebugSubagentArguments(question=f"x{text}", test="t")


A_TOOL = {"type": "function", "function": {"name": "a", "parameters": {"type": "object"}}}
READERS: dict[str, Callable[[str], object]] = {
    "marks of Python": lambda text: patch_marks(patch_of(text, ".py"), ""),
    "marks of Java": lambda text: patch_marks(patch_of(text, ".java"), ""),
    "changed lines": changed_lines,
    "renamed files": renamed_files,
    "actions": lambda text: parse_actions(action_block(text)),
    "bare actions": parse_actions,
    "blocks": fenced_blocks,
    "program": program_of,
    "sections": lambda text: list(sections(text)),
    "experiment": parse_experiment,
    "wrong blocks": wrong_blocks,
    "calls": lambda text: parse_calls(text, [A_TOOL], ""),
    "breakpoint": breakpoint_request,
    "failure": read_failure,
    "answer": caller_sees,
    "task": read_subagent_task,
    "places to start": lambda text: start_places(question(text)),
    "places": places,
    "committed places": lambda text: committed(text, text),
    "counts": lambda text: (counts(text), visits(text), exceptions(text, "KeyError")),
    "value": parse_value,
    "observations": lambda text: Observations().add_text(text, Sighting(0, False)),
    "normalised": normalised,
    "state": lambda text: read_state(text, True),
    "section": lambda text: section_of("a.py::b", text),
    **{f"log {name}": LOG_PARSERS[name] for name in ("pytest_options", "pytest_v2")},
    **{f"log {name}": LOG_PARSERS[name] for name in ("django", "sympy")},
    "Java": lambda text: outline(f"class A {{ {text} {{ }} }}"),
    "shingles": lambda text: (shingles(text), words(text)),
}


def test_claims_of_an_answer_at_its_limit() -> None:
    """Answers are read up to a limit; reading that much is quadratic at worst, and not more."""
    for piece in ("1, ", "`x` is 1, ", "['a', ", "KeyError('\\a", "x = [", "a or ", "{", "<a"):
        short, long = (piece * (size // len(piece)) for size in (1_500, 6_000))
        assert seconds_of(claims_in, long) < 40 * max(seconds_of(claims_in, short), 0.01), piece


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", READERS)
def test_twice_the_text_takes_twice_the_time(name: str) -> None:
    def read(text: str) -> None:
        with suppress(UnreadableAction, UnreadableExperiment, PatchError):
            READERS[name](text)

    slow = []
    for piece in PIECES:
        texts = [piece * (size // len(piece)) for size in (SIZE, 4 * SIZE)]
        if seconds_of(read, texts[0]) >= LEAST and all(
            seconds_of(read, texts[1]) > GROWTH * seconds_of(read, texts[0]) for _ in range(3)
        ):
            slow.append(piece)
    assert not slow


@pytest.mark.parametrize(
    ("name", "piece"),
    [
        ("marks of Python", "__eq__("),
        ("marks of Python", "__eq__(a):#"),
        ("marks of Java", "boolean equals("),
        ("places", "-"),
        ("committed places", "1"),
        ("calls", "<tool_call>"),
        ("calls", "[TOOL_CALLS][a("),
        ("log pytest_options", "PASSED ["),
        ("log sympy", " x.py:"),
    ],
)
def test_the_worst_texts(name: str, piece: str) -> None:
    texts = [piece * (size // len(piece)) for size in (2_000, 32_000)]
    least = max(seconds_of(READERS[name], texts[0]), 0.001)
    assert seconds_of(READERS[name], texts[1]) < 80 * least, "sixteen times the text"


DEEP = {
    "minus": "-" * 500 + "x",
    "attributes": "x" + ".a" * 400,
    "items": "x" + "[0]" * 400,
    "sum": "+".join("x" * 500),
    "hexadecimal": "0x" + "f" * 5_000,
    "decimal": "9" * 5_000,
    "words": "a " * 2_000,
}


@pytest.mark.parametrize("text", DEEP.values(), ids=DEEP)
def test_what_python_can_not_hold_is_no_error_of_ours(text: str) -> None:
    with suppress(UnreadableAction):
        parse_actions(f"set_breakpoint({text})")
    with suppress(UnreadableAction):
        parse_actions(text)
    program_of(f"```python\ndef f():\n    return {text}\n```", "def f(): pass")
    assert program_of(f"```\n{text}x y\n```")[0] is None
    parse_calls(f'```\n{{"name": "a", "arguments": {{"b": {text}}}}}\n```', [A_TOOL], "")
    claims_in(f"`{text}` = {text} and `y[{text}]` is {text}; y[{text}] = 5")
    last_part(f"y[{text}]")
    same_text(text, "1.5")
    read_subagent_task(f"Question: a\nTest: t\nLines: {text}")
    Observations().add_text(f'File "a.py", line {text}', Sighting(0, False))
    Observations().add_listing("a.py", text, Sighting(0, False))
    with suppress(UnreadableExperiment):
        parse_experiment(f'REPLACE({text}, "a", "b")')


def test_an_integer_that_no_float_holds_equals_none() -> None:
    assert not same_text("1" + "0" * 400, "1.5")
    assert not same_text("1" + "0" * 400, "inf")
