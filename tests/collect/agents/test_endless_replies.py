"""Replies of a model that repeats itself: each is read within seconds, whatever the form.

They come from the journal again at each start, so one that takes hours ends a run for good.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from collect.agents.baselines.autosd import (
    ScientificForm,
    UnreadableExperiment,
    parse_experiment,
)
from collect.agents.baselines.ldb import wrong_blocks
from collect.agents.baselines.swe_agent import BashForm
from collect.agents.inspectcoder.code_blocks import program_of
from collect.agents.inspectcoder.react import ReactForm
from collect.agents.tools import MalformedAction
from collect.store.messages import Message

SIZE = 400_000
LONGEST = 20.0
"""Seconds of the processor; the least of these took minutes."""


@contextmanager
def in_time() -> Iterator[None]:
    started = time.process_time()
    yield
    assert time.process_time() - started < LONGEST


def repeated(text: str) -> str:
    return text * (SIZE // len(text))


@pytest.mark.parametrize(
    "form", [BashForm(), ScientificForm(), ReactForm(None)], ids=["bash", "scientific", "react"]
)
@pytest.mark.parametrize(
    "text",
    [
        repeated("```bash\n"),
        "```\nx y\n```\n" + repeated("```\n"),
        "### ACTION\n" + repeated("set_breakpoint('"),
        "Experiment: " + repeated("` "),
        "Experiment: REPLACE(1, " + repeated("'a', "),
    ],
    ids=["opened", "closed", "calls", "backticks", "commas"],
)
def test_actions(form: BashForm | ScientificForm | ReactForm, text: str) -> None:
    with in_time(), suppress(MalformedAction):
        form.calls(Message("assistant", text), 0)


@pytest.mark.parametrize("text", ["REPLACE(1, 'a', 'b') AND ", "b 1 ;; ", "REPLACE(1, 'a', '"])
def test_experiments(text: str) -> None:
    with in_time(), pytest.raises(UnreadableExperiment, match="more than 50000 characters"):
        parse_experiment(repeated(text))


@pytest.mark.parametrize(
    "text",
    ["BLOCK-1 " + " " * SIZE, repeated("{") + "}" * 8, repeated('{"a":'), repeated("BLOCK-1 ")],
    ids=["blanks", "braces", "objects", "blocks"],
)
def test_verdicts(text: str) -> None:
    with in_time():
        assert wrong_blocks(text) == []


def test_verdicts_after_what_can_not_be_read() -> None:
    assert wrong_blocks('{x} {y}\n{"block": 1, "correct": false}') == ["1"]


def test_a_program_without_end_is_none() -> None:
    program, problem = program_of("```python\n" + "x\n" * 1_000_000 + "```")
    assert program is None
    assert "longer than the 1000000 characters" in str(problem)
