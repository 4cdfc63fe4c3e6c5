"""What can be read off Python source: its imports, and the tests in it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from collect.errors import ConfigError
from collect.syntax import parse


def parsed(where: str, column: str, code: str) -> ast.Module:
    """The syntax tree. Raises ConfigError naming the row and the column."""
    try:
        return parse(code)
    except (SyntaxError, ValueError) as error:
        raise ConfigError(f"{where}: column {column}: not Python: {error}") from error


def imported_libraries(*trees: ast.Module) -> set[str]:
    """The outermost packages that the code imports from outside the standard library."""
    names = {name for tree in trees for node in ast.walk(tree) for name in _imported(node)}
    return {name for name in names if name not in sys.stdlib_module_names}


def unittest_names(tree: ast.Module) -> tuple[str, ...]:
    """The tests of every class of the module, as `Class::method`."""
    return tuple(
        dict.fromkeys(
            f"{each.name}::{method.name}"
            for each in tree.body
            if isinstance(each, ast.ClassDef)
            for method in each.body
            if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef)
            and method.name.startswith("test")
        )
    )


def is_program(code: str) -> bool:
    """Whether the code parses: no error of syntax, indentation included."""
    try:
        compile(code, "solution.py", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module.partition(".")[0]
