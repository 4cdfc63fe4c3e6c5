from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from collect.benchmarks.self_repair.benchmark import Problem
from collect.errors import ConfigError
from collect.models.base import Sampling
from collect.models.config import ReplayConfig
from collect.models.replay import ReplayBackend
from collect.synthesis.self_repair.building import (
    ModelWriter,
    OracleWriter,
    SolutionsFile,
    code_of,
    prompt,
)
from collect.synthesis.self_repair.sources import BigCodeBench, LiveCodeBench
from tests.collect.synthesis.self_repair.rows import (
    BIGCODEBENCH,
    functional_row,
    lines_file,
    stdin_row,
)

PROBLEM = BigCodeBench().problem("row", BIGCODEBENCH)


def replay(tmp_path: Path, content: str) -> ReplayBackend:
    path = tmp_path / "replies.jsonl"
    path.write_text(json.dumps({"role": "solution_writer", "replies": [{"content": content}]}))
    return ReplayBackend.from_config("writer", ReplayConfig(backend="replay", path=path))


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("So:\n```python\nx = 1\n```\nDone.", "x = 1\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("```py\na\n```\nand\n```python\nlonger = 1\n```", "longer = 1\n"),
        ("```python\nx = '''\n``` not an end'''\ny", "x = '''\n"),
        ("```python\ncut = off(", "cut = off(\n"),
        ("x = 1", "x = 1\n"),
        ("```python\n\n    y\n```", "    y\n"),
        ("", ""),
        ("```python\n```", ""),
    ],
)
def test_code_is_taken_out_of_a_reply(reply: str, code: str) -> None:
    assert code_of(reply) == code


def test_a_model_writes_one(tmp_path: Path) -> None:
    writer = ModelWriter(replay(tmp_path, "```python\nx = 1\n```"), Sampling(), 0)
    (solution,) = writer.solutions(PROBLEM)
    assert (solution.code, solution.written_by, solution.edit) == ("x = 1\n", "writer", None)


def test_a_model_that_writes_nothing(tmp_path: Path) -> None:
    assert not list(ModelWriter(replay(tmp_path, "  \n"), Sampling(), 0).solutions(PROBLEM))


@pytest.mark.parametrize(
    "problem", [PROBLEM, LiveCodeBench().problem("row", functional_row())], ids=["first", "second"]
)
def test_the_prompt_is_the_task(problem: Problem) -> None:
    text = prompt(problem)
    assert text.count(problem.statement) == 1
    assert "{" not in text.replace(problem.statement, "")
    assert "test_" not in text


def test_the_oracle_breaks_the_canonical_solution_as_its_seed_says() -> None:
    first = [solution.code for solution in OracleWriter(0, 5).solutions(PROBLEM)]
    assert first == [solution.code for solution in OracleWriter(0, 5).solutions(PROBLEM)]
    assert first != [solution.code for solution in OracleWriter(1, 5).solutions(PROBLEM)]
    assert 1 < len(first) <= 5
    assert PROBLEM.canonical not in first


def test_the_oracle_needs_a_canonical_solution() -> None:
    problem = LiveCodeBench().problem("row", stdin_row(canonical_solution=None))
    assert not list(OracleWriter(0, 5).solutions(problem))


@pytest.mark.parametrize(
    "row",
    [
        {"task_id": PROBLEM.id, "solution": "x = 1\n"},
        {"question_id": PROBLEM.id, "solution": "y = 2\n", "buggy_solution": "x = 1\n"},
    ],
)
def test_a_file_of_solutions(tmp_path: Path, row: dict[str, Any]) -> None:
    writer = SolutionsFile(lines_file(tmp_path / "made.jsonl", row))
    (solution,) = writer.solutions(PROBLEM)
    assert (solution.code, solution.written_by) == ("x = 1\n", "made.jsonl")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": "x", "solution": ""}], "row|line 1: must have the column task_id or question_id"),
        ([{"task_id": "x"}], "line 1: must have the column buggy_solution or solution"),
        ([{"task_id": "x", "solution": ""}] * 2, "line 2: a second solution for x"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, rows: list[object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SolutionsFile(lines_file(tmp_path / "made.jsonl", *rows))
