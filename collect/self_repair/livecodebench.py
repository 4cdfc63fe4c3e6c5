"""LiveCodeBench (livecodebench/code_generation_lite): contest problems with private tests.

A functional problem's test calls a function with JSON values, one a line of its input; a standard
input problem's test runs the program on text. Comparison is upstream's (`runtime/checking.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from collect.benchmarks.row_files import Rows, checked, hub_rows
from collect.errors import ConfigError
from collect.self_repair.private_tests import decode_tests
from collect.self_repair.problem import Problem, numbered
from collect.self_repair.python_code import imported_libraries, parsed

_MODULES = (
    "string",
    "re",
    "datetime",
    "collections",
    "heapq",
    "bisect",
    "copy",
    "math",
    "random",
    "statistics",
    "itertools",
    "functools",
    "operator",
    "io",
    "sys",
    "json",
)
PRELUDE = (
    "".join(f"from {name} import *\n" for name in (*_MODULES, "builtins", "typing"))
    + "".join(f"import {name}\n" for name in _MODULES)
    + "\nsys.setrecursionlimit(50000)\n"
)
"""What upstream runs before every solution (testing_util.py, import_string), in its order."""
PUBLIC, PRIVATE = "public_test_cases", "private_test_cases"
RELEASES = {f"release_v{number}": number for number in range(1, 7)}


class _Row(BaseModel):
    """The upstream columns in use; the others are ignored."""

    model_config = ConfigDict(extra="ignore")

    question_title: str
    question_content: str
    question_id: str
    contest_date: datetime
    starter_code: str
    difficulty: str
    public_test_cases: str
    private_test_cases: str
    metadata: str
    canonical_solution: str | None = None
    """Not upstream's: a correct program, for the oracle to break."""


class _Case(BaseModel):
    """One test, as upstream's JSON holds it."""

    model_config = ConfigDict(extra="ignore")

    input: str
    output: str
    testtype: Literal["stdin", "functional"]


class LiveCodeBench:
    """The source `livecodebench`."""

    name = "livecodebench"
    hub_id = "livecodebench/code_generation_lite"
    split = "release_v5"

    def hub_rows(self, hub_id: str, split: str) -> Rows:
        if split not in RELEASES:
            raise ConfigError(
                f"self_repair.split: {hub_id} has no release {split!r}; there are: "
                f"{', '.join(RELEASES)}"
            )
        # A release is all files up to its own.
        files = [f"test{number if number > 1 else ''}.jsonl" for number in range(1, 7)]
        wanted = files[: RELEASES[split]]
        return hub_rows(hub_id, "self_repair.path", split=split, data_files=wanted)

    def problem(self, where: str, row: object) -> Problem:
        task = checked(where, row, _Row, self.hub_id)
        public = _cases(where, PUBLIC, task.public_test_cases)
        private = _cases(where, PRIVATE, task.private_test_cases)
        function = _function_name(where, task)
        return Problem(
            id=task.question_id,
            source=self.name,
            statement=_statement(task, function),
            starter=task.starter_code,
            canonical=task.canonical_solution,
            entry_point=_entry_point(function, task.starter_code),
            public_tests=numbered(*_test_code(where, PUBLIC, public, function)),
            private_tests=numbered(*_test_code(where, PRIVATE, private, function), private=True)
            if private
            else None,
            prelude=PRELUDE,
            libraries=_libraries(where, task.canonical_solution),
            published=task.contest_date.date(),
            difficulty=task.difficulty,
        )


def _cases(where: str, column: str, text: str) -> list[_Case]:
    try:
        return TypeAdapter(list[_Case]).validate_python(decode_tests(where, column, text))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the list"
        raise ConfigError(f"{where}: column {column}: test {place}: {first['msg']}") from error


def _function_name(where: str, task: _Row) -> str | None:
    try:
        metadata = json.loads(task.metadata)
    except ValueError as error:
        raise ConfigError(f"{where}: column metadata: not JSON: {error}") from error
    name = metadata.get("func_name") if isinstance(metadata, dict) else None
    return str(name) if name else None


def _entry_point(function: str | None, starter: str) -> str:
    if function is None:
        return ""
    return f"Solution.{function}" if "class Solution" in starter else function


def _statement(task: _Row, function: str | None) -> str:
    if function is None:
        how = "Write a program that reads standard input and prints the answer."
    else:
        how = f"Complete this code:\n\n```python\n{task.starter_code.strip()}\n```"
    return f"{task.question_title}\n\n{task.question_content.strip()}\n\n{how}"


def _test_code(
    where: str, column: str, cases: Sequence[_Case], function: str | None
) -> tuple[str, list[str]]:
    """A test file's import, and the body of each test."""
    if function is None:
        bodies = [f"check_program({case.input!r}, {case.output!r})" for case in cases]
        return "from checking import check_program\n", bodies
    bodies = []
    for number, case in enumerate(cases):
        place = f"{where}: column {column}: test {number}"
        arguments = [_value(place, line) for line in case.input.split("\n")]
        expected = _value(place, case.output)
        bodies.append(f"check_call({function!r}, {arguments!r}, {expected!r})")
    return "from checking import check_call\n", bodies


def _value(where: str, text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except ValueError as error:
        raise ConfigError(f"{where}: {text[:100]!r} is not JSON: {error}") from error


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number of JSON")


def _libraries(where: str, canonical: str | None) -> tuple[str, ...]:
    if canonical is None:
        return ()
    return tuple(sorted(imported_libraries(parsed(where, "canonical_solution", canonical))))
