"""The statements of a program and the basic blocks they form, from its syntax tree.

A block begins with a function, at a loop's header, at the target of a branch and after one, at a
handler, and where `with`, `try` and `match` begin; it holds what is then executed in a row. What is
within an expression, comprehensions and lambdas too, stays with its statement. Each function and
class has blocks of its own.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BRANCHES = ast.Return | ast.Raise | ast.Break | ast.Continue
COMPOUND = ast.If | ast.For | ast.AsyncFor | ast.While | ast.With | ast.AsyncWith
LOOPS = ast.For | ast.AsyncFor | ast.While
REGIONS = ast.With | ast.AsyncWith | ast.Try | ast.TryStar | ast.Match
DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
DECLARATIONS = DEFINITIONS | ast.Import | ast.ImportFrom


@dataclass(frozen=True)
class Statement:
    """A simple statement, or the header of a compound one."""

    first: int
    """Line, from 1."""
    last: int
    block: int
    leads: bool
    """Whether it is the first of its block."""
    declares: bool = False
    """Whether it is a definition or an import outside of all functions."""
    managed: tuple[int, int] | None = None
    """Of a `with`, the lines of its body: at its end the interpreter comes back to the header."""


def statements_of(code: str) -> Mapping[int, Statement]:
    """The statements by their first line; of several in one line, the first. Raises SyntaxError."""
    reader = _Reader()
    reader.function(ast.parse(code).body, outside=True)
    return reader.found


class _Reader:
    def __init__(self) -> None:
        self.found: dict[int, Statement] = {}
        self._block = -1
        self._fresh = False

    def function(self, body: Sequence[ast.stmt], outside: bool) -> None:
        """A function's own graph; `outside`: a module's or a class's body."""
        self._next_block()
        for statement in body:
            self._statement(statement, outside)
        self._next_block()

    def _next_block(self) -> None:
        if not self._fresh:
            self._block += 1
            self._fresh = True

    def _body(self, body: Sequence[ast.stmt], outside: bool, leads: bool = True) -> None:
        if leads and body:
            self._next_block()
        for statement in body:
            self._statement(statement, outside)
        if body:
            self._next_block()

    def _statement(self, node: ast.stmt, outside: bool) -> None:
        if isinstance(node, LOOPS | REGIONS):
            self._next_block()
        declares = outside and isinstance(node, DECLARATIONS)
        managed = None
        if isinstance(node, ast.With | ast.AsyncWith):
            managed = (node.body[0].lineno, node.end_lineno or node.lineno)
        self._add(_first_line(node), _last_line(node), declares, managed)
        if isinstance(node, DEFINITIONS):
            self._definition(node)
        elif isinstance(node, BRANCHES):
            self._next_block()
        else:
            self._parts(node, outside)

    def _definition(self, node: DEFINITIONS) -> None:
        """The blocks of a function lie apart: what follows its `def` goes on with the one before."""
        before, fresh = self._block, self._fresh
        highest = max((each.block for each in self.found.values()), default=0)
        self._block, self._fresh = highest, False
        self.function(node.body, outside=isinstance(node, ast.ClassDef))
        self._resume(before, fresh)

    def _resume(self, block: int, fresh: bool) -> None:
        self._block, self._fresh = block, fresh
