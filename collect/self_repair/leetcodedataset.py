"""LeetCodeDataset (newfacade/LeetCodeDataset): methods of a `Solution` class, tested by asserts.

Upstream's header of imports and helpers is the prelude. Of the asserts those that check an example
of the description are public, the others private.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from datetime import date
from typing import TypeGuard

from pydantic import BaseModel, ConfigDict

from collect.benchmarks.row_files import Rows, checked, hub_rows
from collect.errors import ConfigError
from collect.self_repair.problem import Problem, TestFile, numbered
from collect.self_repair.python_code import imported_libraries, parsed

IMPORTS = "from checking import check_call, load_solution\nfrom prelude import *  # noqa: F403\n"
PRELUDE_IMPORT = "from prelude import *\n\n\n"
_EXAMPLE = re.compile(r"Example \d+:\s*Input: ?(.*?)\n\s*Output", re.DOTALL)


class _Row(BaseModel):
    """The upstream columns in use; the others are ignored."""

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
        task = checked(where, row, _Row, self.hub_id)
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


def _statement(task: _Row) -> str:
    return (
        f"{task.problem_description.strip()}\n\n"
        f"Complete this code; the names that `prelude.py` defines are imported for it:\n\n"
        f"```python\n{task.starter_code.strip()}\n```"
    )


def _tests(where: str, task: _Row) -> tuple[TestFile, TestFile | None]:
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


def _body(task: _Row, node: ast.Assert) -> str:
    """A call that tells what it got; else the assert as upstream wrote it."""
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
    """The asserts on the examples; where none is found, as many from the start as there are."""
    inputs = [_bare(text) for text in _EXAMPLE.findall(description)]
    found = [node for node in asserts if _bare(_arguments(node)) in inputs]
    return found or list(asserts[: max(1, len(inputs))])


def _arguments(node: ast.Assert) -> str:
    """The candidate's arguments as the description writes them: `n = 4, queries = [[0,3]]`."""
    named = [
        f"{keyword.arg}={ast.unparse(keyword.value)}"
        for call in ast.walk(node)
        if _is_call(call)
        for keyword in call.keywords
    ]
    return ", ".join(named)


def _is_call(node: ast.AST) -> TypeGuard[ast.Call]:
    """Whether it calls the candidate, with named arguments only."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    return node.func.id == "candidate" and not node.args


def _uses_candidate(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "candidate" for each in ast.walk(node))


def _bare(text: str) -> str:
    return re.sub(r"[\s\"']", "", text)
