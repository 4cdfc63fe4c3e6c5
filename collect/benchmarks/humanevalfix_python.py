"""Convert a Python task of HumanEvalFix to files.

`prompt` + solution becomes `solution.py`; `test` becomes `test_solution.py`, with upstream's code
unchanged except that its final call moves into a test function.
"""

from __future__ import annotations

import ast

from collect.benchmarks.humanevalfix_rows import Row
from collect.benchmarks.self_repair.problem import parsed
from collect.errors import ConfigError
from sandbox.text import source_lines

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
