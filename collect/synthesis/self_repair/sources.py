"""Open the problems that a config names."""

from __future__ import annotations

import ast
import base64
import binascii
import io
import json
import pickle
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeGuard

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from collect.benchmarks.row_files import Rows, checked, file_rows, hub_rows
from collect.benchmarks.self_repair.problem import (
    Problem,
    ProblemSource,
    TestFile,
    imported_libraries,
    numbered,
    parsed,
    unittest_names,
)
from collect.errors import ConfigError
from collect.synthesis.self_repair.config import SelfRepairConfig

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
    """Only the upstream columns that we use."""

    model_config = ConfigDict(extra="ignore")

    task_id: str
    complete_prompt: str
    instruct_prompt: str
    canonical_solution: str
    code_prompt: str = ""
    test: str
    entry_point: str
    libs: str | list[str] = "[]"
    """A list, or a string with a Python list."""


class BigCodeBench:
    """The source `bigcodebench`."""

    name = "bigcodebench"
    hub_id = "bigcode/bigcodebench"
    split = "v0.1.4"

    def hub_rows(self, hub_id: str, split: str) -> Rows:
        return hub_rows(hub_id, "self_repair.path", split=split)

    def problem(self, where: str, row: object) -> Problem:
        task = checked(where, row, _BigCodeBenchRow, self.hub_id)
        canonical = task.complete_prompt + task.canonical_solution
        test = parsed(where, "test", task.test)
        names = unittest_names(test)
        if not names:
            raise ConfigError(f"{where}: column test: holds no class with test methods")
        program = parsed(where, "complete_prompt + canonical_solution", canonical)
        libraries = {*_listed(where, task.libs), *imported_libraries(program, test)}
        return Problem(
            id=task.task_id,
            source=self.name,
            statement=task.instruct_prompt.strip(),
            starter=task.complete_prompt,
            canonical=canonical,
            entry_point=task.entry_point,
            public_tests=TestFile(IMPORT + task.test.rstrip() + "\n" + SHARED, names),
            libraries=tuple(sorted(libraries)),
        )


def _listed(where: str, libraries: str | list[str]) -> list[str]:
    try:
        names = libraries if isinstance(libraries, list) else ast.literal_eval(libraries)
        return [str(name).partition(".")[0] for name in names]
    except (SyntaxError, ValueError, TypeError) as error:
        raise ConfigError(f"{where}: column libs: not a list of names: {error}") from error


# LeetCodeDataset (newfacade/LeetCodeDataset): methods of a `Solution` class, tested by asserts.
#
# Upstream's import header becomes the prelude. Asserts that check an example from the description
# are public, the others private.


IMPORTS = "from checking import check_call, load_solution\nfrom prelude import *  # noqa: F403\n"
PRELUDE_IMPORT = "from prelude import *\n\n\n"
_EXAMPLE = re.compile(r"Example \d+:\s*Input: ?(.*?)\n\s*Output", re.DOTALL)


class _LeetCodeRow(BaseModel):
    """Only the upstream columns that we use."""

    model_config = ConfigDict(extra="ignore")

    task_id: str
    problem_description: str
    starter_code: str
    prompt: str
    completion: str
    entry_point: str
    test: str
    difficulty: str | None = None
    estimated_date: date | None = None


class LeetCodeDataset:
    """The source `leetcodedataset`."""

    name = "leetcodedataset"
    hub_id = "newfacade/LeetCodeDataset"
    split = "test"

    def hub_rows(self, hub_id: str, split: str) -> Rows:
        return hub_rows(hub_id, "self_repair.path", split=split)

    def problem(self, where: str, row: object) -> Problem:
        task = checked(where, row, _LeetCodeRow, self.hub_id)
        canonical = PRELUDE_IMPORT + task.completion.strip() + "\n"
        program = parsed(where, "completion", canonical)
        prelude = parsed(where, "prompt", task.prompt)
        public, private = _tests(where, task)
        return Problem(
            id=task.task_id,
            source=self.name,
            statement=_statement(task),
            starter=PRELUDE_IMPORT + task.starter_code.strip() + "\n",
            canonical=canonical,
            entry_point=task.entry_point.replace("()", ""),
            public_tests=public,
            private_tests=private,
            prelude=task.prompt.strip() + "\n",
            libraries=tuple(sorted(imported_libraries(program, prelude) - {"prelude"})),
            published=task.estimated_date,
            difficulty=task.difficulty,
        )


def _statement(task: _LeetCodeRow) -> str:
    return (
        f"{task.problem_description.strip()}\n\n"
        f"Complete this code; the names that `prelude.py` defines are imported for it:\n\n"
        f"```python\n{task.starter_code.strip()}\n```"
    )


def _tests(where: str, task: _LeetCodeRow) -> tuple[TestFile, TestFile | None]:
    tree = parsed(where, "test", task.test)
    function = tree.body[0] if tree.body else None
    if not isinstance(function, ast.FunctionDef) or len(tree.body) != 1:
        raise ConfigError(f"{where}: column test: must be one function, check(candidate)")
    asserts = [node for node in function.body if isinstance(node, ast.Assert)]
    if len(asserts) != len(function.body) or not asserts:
        raise ConfigError(
            f"{where}: column test: check(candidate) must hold asserts, and only them"
        )
    public = _examples(asserts, task.problem_description)
    private = [each for each in asserts if each not in public]
    bodies = [[_body(task, each) for each in group] for group in (public, private)]
    hidden = numbered(IMPORTS, bodies[1], private=True) if private else None
    return numbered(IMPORTS, bodies[0]), hidden


def _body(task: _LeetCodeRow, node: ast.Assert) -> str:
    """A call that reports the actual value, or else upstream's assert."""
    simple = node.test
    if isinstance(simple, ast.Compare) and _is_call(simple.left) and len(simple.ops) == 1:
        expected = simple.comparators[0]
        if isinstance(simple.ops[0], ast.Eq) and not _uses_candidate(expected):
            method = task.entry_point.rpartition(".")[2]
            named = ", ".join(
                f"{each.arg!r}: {ast.unparse(each.value)}" for each in simple.left.keywords
            )
            return f"check_call({method!r}, {{{named}}}, {ast.unparse(expected)})"
    source = ast.get_source_segment(task.test, node) or ast.unparse(node)
    return f"candidate = load_solution().{task.entry_point}\n{source}"


def _examples(asserts: Sequence[ast.Assert], description: str) -> list[ast.Assert]:
    """The asserts that check the examples; if none is found, as many first asserts as there are
    examples."""
    inputs = [_bare(text) for text in _EXAMPLE.findall(description)]
    found = [node for node in asserts if _bare(_arguments(node)) in inputs]
    return found or list(asserts[: max(1, len(inputs))])


def _arguments(node: ast.Assert) -> str:
    """The candidate's arguments in the description's format: `n = 4, queries = [[0,3]]`."""
    named = [
        f"{keyword.arg}={ast.unparse(keyword.value)}"
        for call in ast.walk(node)
        if _is_call(call)
        for keyword in call.keywords
    ]
    return ", ".join(named)


def _is_call(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether it calls the candidate with keyword arguments only."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    return node.func.id == "candidate" and not node.args


def _uses_candidate(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "candidate" for each in ast.walk(node))


def _bare(text: str) -> str:
    return re.sub(r"[\s\"']", "", text)


# LiveCodeBench publishes private tests as JSON, or as base64 of zlib of a pickled JSON string. A
# pickle can call anything, so the unpickler refuses to look up any name.


BROKEN = (
    EOFError,
    IndexError,
    KeyError,
    AttributeError,
    TypeError,
    OverflowError,
    MemoryError,
    RecursionError,
)
MAX_BYTES = 512 * 1024 * 1024
"""Limit for the decompressed tests of one problem."""


def decode_tests(where: str, column: str, text: str) -> object:
    """The JSON value. Raises ConfigError, also if the pickle is not a string."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        packed = text
    try:
        return json.loads(_unpickled(_decompressed(base64.b64decode(packed, validate=True))))
    except (binascii.Error, zlib.error, pickle.UnpicklingError, ValueError) as error:
        reason = str(error)
    except BROKEN as error:
        # The errors that the unpickler raises for a broken pickle.
        reason = f"not a pickle: {error}"
    raise ConfigError(
        f"{where}: column {column}: neither JSON nor base64 of zlib of a pickled string of JSON: "
        f"{reason}"
    )


class _StringsOnly(pickle.Unpickler):
    """Refuses every name lookup, so that loading runs no code."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"the pickle asks for {module}.{name}, and may hold only text")

    def persistent_load(self, pid: object) -> NoReturn:
        raise pickle.UnpicklingError("the pickle refers to something outside it")


def _decompressed(data: bytes) -> bytes:
    decompressor = zlib.decompressobj()
    result = decompressor.decompress(data, MAX_BYTES)
    if decompressor.unconsumed_tail:
        raise ValueError(f"more than {MAX_BYTES} bytes when decompressed")
    if not decompressor.eof:
        raise ValueError("the compressed data is cut off")
    return result


def _unpickled(data: bytes) -> str:
    value = _StringsOnly(io.BytesIO(data)).load()
    if not isinstance(value, str):
        raise ValueError(f"the pickle holds {type(value).__name__}, not text")
    return value


# LiveCodeBench (livecodebench/code_generation_lite): contest problems with private tests.
#
# A functional test calls a function with JSON values, one per input line. A standard input test
# runs the program on text. Results are compared as upstream does (`runtime/checking.py`).


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
"""The code that upstream runs before every solution (testing_util.py, import_string), in its order.
"""
PUBLIC, PRIVATE = "public_test_cases", "private_test_cases"
RELEASES = {f"release_v{number}": number for number in range(1, 7)}


class _LiveCodeBenchRow(BaseModel):
    """Only the upstream columns that we use."""

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
    """A correct program, for the oracle to break. Upstream has no such column."""


class _Case(BaseModel):
    """One test in upstream's JSON."""

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
        # A release consists of all files up to its own.
        files = [f"test{number if number > 1 else ''}.jsonl" for number in range(1, 7)]
        wanted = files[: RELEASES[split]]
        return hub_rows(hub_id, "self_repair.path", split=split, data_files=wanted)

    def problem(self, where: str, row: object) -> Problem:
        task = checked(where, row, _LiveCodeBenchRow, self.hub_id)
        public = _cases(where, PUBLIC, task.public_test_cases)
        private = _cases(where, PRIVATE, task.private_test_cases)
        function = _function_name(where, task)
        return Problem(
            id=task.question_id,
            source=self.name,
            statement=_livecodebench_text(task, function),
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


def _function_name(where: str, task: _LiveCodeBenchRow) -> str | None:
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


def _livecodebench_text(task: _LiveCodeBenchRow, function: str | None) -> str:
    if function is None:
        how = "Write a program that reads standard input and prints the answer."
    else:
        how = f"Complete this code:\n\n```python\n{task.starter_code.strip()}\n```"
    return f"{task.question_title}\n\n{task.question_content.strip()}\n\n{how}"


def _test_code(
    where: str, column: str, cases: Sequence[_Case], function: str | None
) -> tuple[str, list[str]]:
    """The import lines of a test file, and the body of each test."""
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


PROBLEMS = Path(__file__).parent / "bundled" / "problems"
SOURCES: dict[str, ProblemSource] = {
    source.name: source for source in (BigCodeBench(), LiveCodeBench(), LeetCodeDataset())
}


def read_problems(config: SelfRepairConfig) -> list[Problem]:
    """All problems that the config selects, in order. Raises ConfigError."""
    problems = list(_problems(config))
    ids = [problem.id for problem in problems]
    twice = sorted({name for name in ids if ids.count(name) > 1})
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
            for problem in _read(SOURCES[name], file_rows(PROBLEMS / f"{name}.jsonl", "bundled")):
                yield replace(problem, source="bundled")
        return
    source = SOURCES[config.source]
    if config.path is not None:
        yield from _read(source, file_rows(Path(config.path), "self_repair.path"))
    else:
        hub_id, split = config.hub_id or source.hub_id, config.split or source.split
        yield from _read(source, source.hub_rows(hub_id, split))


def _read(source: ProblemSource, rows: Rows) -> Iterator[Problem]:
    for where, row in rows:
        yield source.problem(where, row)
