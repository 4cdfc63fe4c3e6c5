"""The rows of HumanEvalFix, from a file or the hub, and the files of a Python task.

`prompt` + solution becomes `solution.py`; `test` becomes `test_solution.py`, with upstream's code
unchanged except that its final call moves into a test function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from collect.benchmarks import row_files
from collect.benchmarks.base import Language
from collect.benchmarks.self_repair.problem import parsed
from collect.errors import ConfigError
from sandbox.text import source_lines

HUB_ID = "bigcode/humanevalpack"
SETTING = "benchmark.path"


class Row(BaseModel):
    """Only the upstream columns that we use."""

    model_config = ConfigDict(extra="ignore", strict=True)

    task_id: str
    prompt: str
    canonical_solution: str
    buggy_solution: str
    test: str
    entry_point: str
    docstring: str
    bug_type: str

    @property
    def language(self) -> str:
        """The first half of the task's id (`Java/17`), in lower case."""
        return self.task_id.partition("/")[0].lower()

    @property
    def number(self) -> str:
        """The second half of the task's id: the problem's number, the same in every language."""
        return self.task_id.partition("/")[2]


def file_rows(path: Path, languages: Sequence[Language]) -> Iterator[tuple[str, Row]]:
    """Each row of a .jsonl, .jsonl.gz or .parquet file, with its location.

    Raises ConfigError if the file or a row is invalid, or of another language.
    """
    for where, row in row_files.file_rows(path, SETTING):
        yield where, _validated(where, row, languages)


def hub_rows(hub_id: str, languages: Sequence[Language]) -> Iterator[tuple[str, Row]]:
    """Each row of the data set on the hub, with its location. Raises ConfigError."""
    for language in languages:
        for where, row in row_files.hub_rows(hub_id, SETTING, split="test", name=language):
            yield where, _validated(where, row, languages)


def _validated(where: str, row: object, languages: Sequence[Language]) -> Row:
    task = row_files.checked(where, row, Row, HUB_ID)
    if task.language not in languages:
        wanted = " or ".join(language.capitalize() for language in languages)
        raise ConfigError(
            f"{where}: column task_id: {task.task_id} is not a {wanted} task; give the file of "
            "that language, or set benchmark.language"
        )
    return task


SOLUTION = "solution.py"
TEST_FILE = "test_solution.py"
TEST = f"{TEST_FILE}::test_check"
TEST_COMMAND = f"python -m pytest {TEST_FILE}"


def make_test_file(where: str, task: Row) -> bytes:
    """Upstream's test code, with its last statement as the body of `test_check`.

    `where` names the row. Raises ConfigError.
    """
    tree = parsed(where, "test", task.test)
    last = tree.body[-1] if tree.body else None
    if not (isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)):
        raise ConfigError(f"{where}: column test: must end with the call that runs the check")
    lines = source_lines(task.test)
    kept = "\n".join(lines[: last.lineno - 1]).strip("\n")
    call = "\n".join("    " + line for line in lines[last.lineno - 1 : last.end_lineno])
    names = ", ".join(_imported_names(where, task, tree))
    return (
        f"from {SOLUTION.removesuffix('.py')} import {names}\n\n\n{kept}\n\n\n"
        f"def test_check():\n{call}\n"
    ).encode()


def _imported_names(where: str, task: Row, test: ast.Module) -> list[str]:
    """Names of the program that the test uses; upstream runs both in one namespace."""
    program = parsed(where, "prompt", task.prompt + task.canonical_solution)
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
