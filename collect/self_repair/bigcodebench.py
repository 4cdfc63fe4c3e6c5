"""BigCodeBench (bigcode/bigcodebench): functions with library calls, tested by a unittest class.

Upstream runs the program and its tests in one namespace. Here the test file takes every name of
`solution.py` in, goes on with upstream's code as it is, and at its end gives `solution.py` the
names that it lacks: four canonical solutions use `os`, which only their tests import.
"""

from __future__ import annotations

import ast

from pydantic import BaseModel, ConfigDict

from collect.benchmarks.row_files import Rows, checked, hub_rows
from collect.errors import ConfigError
from collect.self_repair.problem import Problem, TestFile
from collect.self_repair.python_code import imported_libraries, parsed, unittest_names

IMPORT = "from solution import *  # noqa: F403\n\n"
SHARED = """

import solution

for _name in list(globals()):
    vars(solution).setdefault(_name, globals()[_name])
"""


class _Row(BaseModel):
    """The upstream columns in use; the others are ignored."""

    model_config = ConfigDict(extra="ignore")

    task_id: str
    complete_prompt: str
    instruct_prompt: str
    canonical_solution: str
    code_prompt: str = ""
    test: str
    entry_point: str
    libs: str | list[str] = "[]"
    """A list, or one written out as Python."""


class BigCodeBench:
    """The source `bigcodebench`."""

    name = "bigcodebench"
    hub_id = "bigcode/bigcodebench"
    split = "v0.1.4"

    def hub_rows(self, hub_id: str, split: str) -> Rows:
        return hub_rows(hub_id, "self_repair.path", split=split)

    def problem(self, where: str, row: object) -> Problem:
        task = checked(where, row, _Row, self.hub_id)
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
