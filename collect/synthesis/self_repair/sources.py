"""The `self_repair` section of a config, and the problems that it names."""

from __future__ import annotations

import ast
import base64
import io
import json
import pickle
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NoReturn, Self

from pydantic import BaseModel, Field, TypeAdapter, ValidationError, model_validator

from collect.benchmarks.row_files import checked, file_rows, hub_rows
from collect.benchmarks.self_repair.benchmark import (
    Problem,
    TestFile,
    imported_libraries,
    literal,
    numbered,
    parsed,
    unittest_names,
)
from collect.errors import ConfigError
from collect.store.files import StrictRecord

SourceName = Literal["bundled", "bigcodebench", "livecodebench"]


class SelfRepairConfig(StrictRecord):
    """Which problems, who writes the solutions, and what to keep."""

    source: SourceName = "bundled"
    """The source of the problems."""
    path: str | None = None
    """A file of problems: .jsonl, .jsonl.gz, .parquet or .csv. None: the hub, or for `bundled` the
    problems that come with StepInto."""
    hub_id: str | None = None
    """Data set on the hub, if `path` is null. None: the source's own."""
    split: str | None = None
    """Split of the data set on the hub, or LiveCodeBench's release. None: the source's own."""
    from_date: date | None = None
    """Only problems published on this day or later. Problems without a date are dropped."""
    to_date: date | None = None
    """Only problems published on this day or earlier."""
    limit: int | None = Field(default=None, ge=1)
    """Maximum number of problems, from the start of the date range."""
    writer: str = "oracle"
    """Who writes the solutions: a model in `models`. The oracle breaks canonical solutions."""
    solutions: str | None = None
    """A file of existing solutions, used instead of a writer: columns `task_id` or `question_id`,
    and `solution` or `buggy_solution`. Only the problems that it names are tried."""
    seed: int = 0
    """Seed for the order of the oracle's edits, and for a model's sampling."""
    max_edits: int = Field(default=24, ge=1)
    """Maximum number of the oracle's edits per canonical solution."""
    test_timeout: float = Field(default=30.0, gt=0)
    """Seconds for one run of a problem's tests."""
    allow_timeouts: bool = False
    """Keep solutions that do not end within `test_timeout`."""
    output: str | None = None
    """The benchmark file; its card is written next to it. None: `self_repair.jsonl` in the run's
    folder."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.from_date and self.to_date and self.to_date < self.from_date:
            raise ValueError("to_date is before from_date")
        if self.output is not None and not self.output.endswith(".jsonl"):
            raise ValueError("output must end in .jsonl")
        return self


# Of each data set, only the columns that we use.
#
# BigCodeBench (bigcode/bigcodebench): functions with library calls, tested by a unittest class.
#
# Upstream runs the program and its tests in one namespace. Here the test file imports every name of
# `solution.py`, runs upstream's test code unchanged, and finally gives `solution.py` the names that
# it lacks: four canonical solutions use `os`, which only their tests import.

IMPORT = "from solution import *  # noqa: F403\n\n"
SHARED = """

import solution

for _name in list(globals()):
    vars(solution).setdefault(_name, globals()[_name])
"""


class _BigCodeBenchRow(BaseModel):
    task_id: str
    complete_prompt: str
    instruct_prompt: str
    canonical_solution: str
    test: str
    entry_point: str
    libs: str | list[str] = "[]"
    """A list, or a string with a Python list."""


class BigCodeBench:
    """The source `bigcodebench`."""

    name = "bigcodebench"
    hub_id = "bigcode/bigcodebench"
    split = "v0.1.4"

    def problem(self, where: str, row: object) -> Problem:
        task = checked(where, row, _BigCodeBenchRow, self.hub_id)
        canonical = task.complete_prompt + task.canonical_solution
        test = parsed(where, "test", task.test)
        names = unittest_names(test)
        if not names:
            raise ConfigError(f"{where}: column test: holds no class with test methods")
        program = parsed(where, "complete_prompt + canonical_solution", canonical)
        try:
            listed = task.libs if isinstance(task.libs, list) else ast.literal_eval(task.libs)
            libraries = {str(name).partition(".")[0] for name in listed}
        except (SyntaxError, ValueError, TypeError) as error:
            raise ConfigError(f"{where}: column libs: not a list of names: {error}") from error
        return Problem(
            id=task.task_id,
            source=self.name,
            statement=task.instruct_prompt.strip(),
            canonical=canonical,
            entry_point=task.entry_point,
            public_tests=TestFile(IMPORT + task.test.rstrip() + "\n" + SHARED, names),
            libraries=tuple(sorted(libraries | imported_libraries(program, test))),
        )


# LiveCodeBench publishes private tests as JSON, or as base64 of zlib of a pickled JSON string. A
# pickle can call anything, so the unpickler refuses to look up any name.

MAX_BYTES = 512 * 1024 * 1024
"""Limit for the decompressed tests of one problem."""


class _StringsOnly(pickle.Unpickler):
    """Refuses every name lookup, so that loading runs no code."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}, and may hold only text")


def decode_tests(where: str, column: str, text: str) -> object:
    """The JSON value. Raises ConfigError, also if the pickle is not a string."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        decompressor = zlib.decompressobj()
        data = decompressor.decompress(base64.b64decode(text, validate=True), MAX_BYTES)
        if decompressor.unconsumed_tail:
            raise ValueError(f"more than {MAX_BYTES} bytes when decompressed")
        if not decompressor.eof:
            raise ValueError("the compressed data is cut off")
        value = _StringsOnly(io.BytesIO(data)).load()
        if not isinstance(value, str):
            raise ValueError(f"the pickle holds {type(value).__name__}, not text")
        return json.loads(value)
    except Exception as error:  # Broken data makes the unpickler raise anything.
        raise ConfigError(
            f"{where}: column {column}: neither JSON nor base64 of zlib of a pickled string of "
            f"JSON: {error}"
        ) from error


# LiveCodeBench (livecodebench/code_generation_lite): contest problems with private tests.
#
# A functional test calls a function with JSON values, one per input line. A standard input test
# runs the program on text. Results are compared as upstream does (`runtime/checking.py`).

_MODULES = (
    "string re datetime collections heapq bisect copy math random statistics itertools functools "
    "operator io sys json"
)
MAX_DIGITS = 50_000
"""Decimal digits of the longest integer that upstream reads or prints
(compute_code_generation_metrics.py)."""
PRELUDE = (
    "".join(f"from {name} import *\n" for name in f"{_MODULES} builtins typing".split())
    + "".join(f"import {name}\n" for name in _MODULES.split())
    + "\nsys.setrecursionlimit(50000)\n"
    + f'if hasattr(sys, "set_int_max_str_digits"):\n    sys.set_int_max_str_digits({MAX_DIGITS})\n'
)
"""The code that upstream runs before every solution (testing_util.py, import_string), in its order,
and its limit for integers. CPython before 3.8.14 has no such limit.
"""
_FILES = ["test.jsonl", *(f"test{number}.jsonl" for number in range(2, 7))]
RELEASES = {f"release_v{count}": _FILES[:count] for count in range(1, 7)}
"""The files of each release: all up to its own."""


class _LiveCodeBenchRow(BaseModel):
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
    """A correct program, for the oracle to break. Upstream has no such column."""


class _Case(BaseModel):
    """One test in upstream's JSON."""

    input: str
    output: str
    testtype: Literal["stdin", "functional"]


class LiveCodeBench:
    """The source `livecodebench`."""

    name = "livecodebench"
    hub_id = "livecodebench/code_generation_lite"
    split = "release_v5"

    def problem(self, where: str, row: object) -> Problem:
        task = checked(where, row, _LiveCodeBenchRow, self.hub_id)
        try:
            metadata = json.loads(task.metadata)
        except ValueError as error:
            raise ConfigError(f"{where}: column metadata: not JSON: {error}") from error
        function = str(metadata.get("func_name") or "") if isinstance(metadata, dict) else ""
        how = "Write a program that reads standard input and prints the answer."
        imports, entry_point = "from checking import check_program\n", ""
        if function:
            how = f"Complete this code:\n\n```python\n{task.starter_code.strip()}\n```"
            imports = "from checking import check_call\n"
            in_class = "class Solution" in task.starter_code
            entry_point = f"Solution.{function}" if in_class else function
        public = _test_bodies(where, "public_test_cases", task.public_test_cases, function)
        private = _test_bodies(where, "private_test_cases", task.private_test_cases, function)
        libraries: set[str] = set()
        if task.canonical_solution is not None:
            program = parsed(where, "canonical_solution", task.canonical_solution)
            libraries = imported_libraries(program)
        return Problem(
            id=task.question_id,
            source=self.name,
            statement=f"{task.question_title}\n\n{task.question_content.strip()}\n\n{how}",
            canonical=task.canonical_solution,
            entry_point=entry_point,
            public_tests=numbered(imports, public),
            private_tests=numbered(imports, private, private=True) if private else None,
            prelude=PRELUDE,
            libraries=tuple(sorted(libraries)),
            published=task.contest_date.date(),
            difficulty=task.difficulty,
        )


def _test_bodies(where: str, column: str, text: str, function: str) -> list[str]:
    try:
        cases = TypeAdapter(list[_Case]).validate_python(decode_tests(where, column, text))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "the list"
        raise ConfigError(f"{where}: column {column}: test {place}: {first['msg']}") from error
    if not function:
        return [f"check_program({case.input!r}, {case.output!r})" for case in cases]
    bodies = []
    for number, case in enumerate(cases):
        place = f"{where}: column {column}: test {number}"
        arguments = literal([_value(place, line) for line in case.input.split("\n")])
        expected = literal(_value(place, case.output))
        bodies.append(f"check_call({function!r}, {arguments}, {expected})")
    return bodies


def _value(where: str, text: str) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no number of JSON")

    try:
        return json.loads(text, parse_constant=refuse, parse_int=_integer)
    except ValueError as error:
        raise ConfigError(f"{where}: {text[:100]!r} is not JSON: {error}") from error


def _integer(digits: str) -> int:
    """As upstream reads it. Python's own limit of 4,300 digits is for all of this process, and does
    not hold for decimals."""
    if len(digits.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"an integer has {len(digits)} digits, more than {MAX_DIGITS}")
    return int(Decimal(digits))


PROBLEMS = Path(__file__).parent / "bundled" / "problems"
SOURCES: dict[str, BigCodeBench | LiveCodeBench] = {
    source.name: source for source in (BigCodeBench(), LiveCodeBench())
}


def read_problems(config: SelfRepairConfig) -> list[Problem]:
    """All problems that the config selects, in order. Raises ConfigError."""
    problems = list(_problems(config))
    ids = Counter(problem.id for problem in problems)
    twice = sorted(name for name, count in ids.items() if count > 1)
    if twice:
        raise ConfigError(
            f"{data_name(config)}: {', '.join(twice[:5])} stands there more than once; remove the "
            "copies from the data"
        )
    return problems


def data_name(config: SelfRepairConfig) -> str:
    """The name of the data, as shown on the card."""
    if config.path is not None:
        return Path(config.path).name
    if config.source == "bundled":
        return "bundled"
    source = SOURCES[config.source]
    return f"{config.hub_id or source.hub_id} {config.split or source.split}"


def _problems(config: SelfRepairConfig) -> Iterator[Problem]:
    if config.source == "bundled":
        for name in ("bigcodebench", "livecodebench"):
            for where, row in file_rows(PROBLEMS / f"{name}.jsonl", "bundled"):
                yield replace(SOURCES[name].problem(where, row), source="bundled")
        return
    source = SOURCES[config.source]
    if config.path is not None:
        rows = file_rows(Path(config.path), "self_repair.path")
    else:
        hub_id, split = config.hub_id or source.hub_id, config.split or source.split
        files = RELEASES.get(split) if config.source == "livecodebench" else None
        if files is None and config.source == "livecodebench":
            raise ConfigError(
                f"self_repair.split: {hub_id} has no release {split!r}; there are: "
                f"{', '.join(RELEASES)}"
            )
        rows = hub_rows(hub_id, "self_repair.path", split=split, data_files=files)
    for where, row in rows:
        yield source.problem(where, row)
