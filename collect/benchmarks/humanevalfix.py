"""HumanEvalFix Python: the bugs of bigcode/humanevalpack (OctoPack, arXiv:2308.07124, section 4).

A row's `prompt` + `buggy_solution` becomes `solution.py`; its `test` becomes `test_solution.py`,
with upstream's code as it is, but for the call at its end, which moves into a test function.
"""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from collect.benchmarks.base import Instance, TestResults
from collect.benchmarks.testing import run_pytest
from collect.errors import ConfigError
from collect.patches import diff_trees
from sandbox import Sandbox

HUB_ID = "bigcode/humanevalpack"
SOLUTION = "solution.py"
TEST_FILE = "test_solution.py"
TEST = f"{TEST_FILE}::test_check"


class _Row(BaseModel):
    """The upstream columns in use; the others are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True)

    task_id: str
    prompt: str
    canonical_solution: str
    buggy_solution: str
    test: str
    entry_point: str
    docstring: str
    bug_type: str


class HumanEvalFixBenchmark:
    """HumanEvalFix Python from a .jsonl, .jsonl.gz or .parquet file, or from the hub."""

    name = "humanevalfix"

    def __init__(
        self, path: Path | None = None, hub_id: str = HUB_ID, test_timeout: float = 60.0
    ) -> None:
        """`test_timeout` is in seconds. Some of the buggy programs never end."""
        self.path = path
        self.hub_id = hub_id
        self.test_timeout = test_timeout

    @cached_property
    def _instances(self) -> tuple[Instance, ...]:
        rows = _hub_rows(self.hub_id) if self.path is None else _file_rows(self.path)
        return tuple(_instance(where, row) for where, row in rows)

    def instances(self) -> Sequence[Instance]:
        return self._instances

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        sandbox.write_files(instance.files)

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        return run_pytest(sandbox, list(tests), self.test_timeout)


def _instance(where: str, row: object) -> Instance:
    task = _validated(where, row)
    test_file = _test_file(where, task)
    buggy = {SOLUTION: (task.prompt + task.buggy_solution).encode(), TEST_FILE: test_file}
    correct = {SOLUTION: (task.prompt + task.canonical_solution).encode(), TEST_FILE: test_file}
    return Instance(
        id=task.task_id,
        benchmark=HumanEvalFixBenchmark.name,
        language="python",
        repository=f"{HumanEvalFixBenchmark.name}/{task.task_id.replace('/', '_')}",
        problem_statement=_problem_statement(task),
        fail_to_pass=(TEST,),
        pass_to_pass=(),
        gold_patch=diff_trees(buggy, correct),
        files=buggy,
        test_paths=(TEST_FILE,),
        category=task.bug_type,
    )


def _validated(where: str, row: object) -> _Row:
    try:
        task = _Row.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        column = ".".join(map(str, first["loc"])) or "the row"
        raise ConfigError(
            f"{where}: column {column}: {first['msg']}; the columns of {HUB_ID} are expected"
        ) from error
    if not task.task_id.startswith("Python/"):
        raise ConfigError(
            f"{where}: column task_id: {task.task_id} is not a Python task; "
            "give the Python file of HumanEvalFix"
        )
    return task


def _problem_statement(task: _Row) -> str:
    specification = "\n".join("    " + line for line in task.docstring.splitlines())
    return (
        f"`{task.entry_point}` in `{SOLUTION}` does not do what it should\n\n"
        f"`python -m pytest {TEST_FILE}` fails. This is what `{task.entry_point}` is meant to do:"
        f"\n\n{specification}\n\n"
        f"The tests in `{TEST_FILE}` are right; the mistake is in `{SOLUTION}`.\n"
    )


def _test_file(where: str, task: _Row) -> bytes:
    """Upstream's test code, its last statement made the body of `test_check`."""
    tree = _parsed(where, "test", task.test)
    last = tree.body[-1] if tree.body else None
    if not (isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)):
        raise ConfigError(f"{where}: column test: must end with the call that runs the check")
    lines = task.test.splitlines()
    kept = "\n".join(lines[: last.lineno - 1]).strip("\n")
    call = "\n".join("    " + line for line in lines[last.lineno - 1 : last.end_lineno])
    names = ", ".join(_imported_names(where, task, tree))
    return (
        f"from {SOLUTION.removesuffix('.py')} import {names}\n\n\n{kept}\n\n\n"
        f"def test_check():\n{call}\n"
    ).encode()


def _imported_names(where: str, task: _Row, test: ast.Module) -> list[str]:
    """What the test uses of the program; upstream runs both in one namespace."""
    program = _parsed(where, "prompt", task.prompt + task.canonical_solution)
    used = {node.id for node in ast.walk(test) if isinstance(node, ast.Name)}
    imported = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(test)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    return sorted({task.entry_point} | (_top_level_names(program) & used) - imported)


def _top_level_names(program: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in program.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def _parsed(where: str, column: str, code: str) -> ast.Module:
    try:
        return ast.parse(code)
    except SyntaxError as error:
        raise ConfigError(f"{where}: column {column}: not Python: {error}") from error


def _file_rows(path: Path) -> Iterator[tuple[str, object]]:
    """Each row and where it stands. Raises ConfigError."""
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; benchmark.path names a HumanEvalFix Python file")
    if path.suffix == ".parquet":
        yield from _parquet_rows(path)
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        yield from _json_lines(path)
    else:
        raise ConfigError(f"{path}: the name must end in .jsonl, .jsonl.gz or .parquet")


def _json_lines(path: Path) -> Iterator[tuple[str, object]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for number, line in enumerate(data.split(b"\n"), start=1):
        where = f"{path}, line {number}"
        if line.strip():
            try:
                yield where, json.loads(line)
            except ValueError as error:
                raise ConfigError(f"{where}: not JSON: {error}") from error


def _parquet_rows(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    import pyarrow
    from pyarrow import parquet

    try:
        rows = parquet.read_table(path).to_pylist()
    except pyarrow.ArrowInvalid as error:
        raise ConfigError(f"{path}: not Parquet: {error}") from error
    for number, row in enumerate(rows, start=1):
        yield f"{path}, row {number}", row


def _hub_rows(hub_id: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    from datasets import load_dataset

    try:
        rows = load_dataset(hub_id, "python", split="test")
    # The hub client raises many kinds: not found, no network, not allowed, no such split.
    except Exception as error:
        raise ConfigError(
            f"{hub_id}: can't be loaded from the hub ({type(error).__name__}: {error}); "
            "where there is no hub, set benchmark.path to a local file of it"
        ) from error
    for number, row in enumerate(rows, start=1):
        yield f"{hub_id}, row {number}", row
