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

from collect.syntax import parse

ENDS_OF_BLOCKS = ast.Return | ast.Raise | ast.Break | ast.Continue
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
    reader.scope(parse(code).body, outside=True)
    return reader.found


class _Reader:
    """Goes through a program in the order of its lines."""

    def __init__(self) -> None:
        self.found: dict[int, Statement] = {}
        self._count = 0
        self._block = 0
        self._leads = True
        """Whether the next statement begins the block."""

    def scope(self, body: Sequence[ast.stmt], outside: bool) -> None:
        """A function, class or module; the block around a definition goes on behind it."""
        around = self._block
        self._begin_block()
        for statement in body:
            self._statement(statement, outside)
        self._block, self._leads = around, False

    def _begin_block(self) -> None:
        self._block = self._count
        self._count += 1
        self._leads = True

    def _statement(self, node: ast.stmt, outside: bool) -> None:
        if isinstance(node, LOOPS | REGIONS):
            self._begin_block()
        declares = outside and isinstance(node, DECLARATIONS)
        self._add(_first_line(node), _header_end(node), declares, _managed(node))
        if isinstance(node, DEFINITIONS):
            self.scope(node.body, outside=isinstance(node, ast.ClassDef))
        elif isinstance(node, ENDS_OF_BLOCKS):
            self._begin_block()
        elif _is_compound(node):
            self._parts(node, outside)
            self._begin_block()

    def _add(
        self,
        first: int,
        last: int,
        declares: bool = False,
        managed: tuple[int, int] | None = None,
    ) -> None:
        if first not in self.found:
            leads = self._leads
            self.found[first] = Statement(first, last, self._block, leads, declares, managed)
            self._leads = False

    def _parts(self, node: ast.stmt, outside: bool) -> None:
        """The bodies of a compound statement."""
        goes_on = isinstance(node, ast.With | ast.AsyncWith | ast.Try | ast.TryStar)
        self._body(getattr(node, "body", ()), outside, leads=not goes_on)
        for part in [*getattr(node, "cases", ()), *getattr(node, "handlers", ())]:
            self._begin_block()
            header = part.pattern.lineno if isinstance(part, ast.match_case) else part.lineno
            self._add(header, max(header, part.body[0].lineno - 1))
            self._body(part.body, outside)
        self._body(getattr(node, "orelse", ()), outside)
        self._body(getattr(node, "finalbody", ()), outside)

    def _body(self, body: Sequence[ast.stmt], outside: bool, leads: bool = True) -> None:
        if body and leads:
            self._begin_block()
        for statement in body:
            self._statement(statement, outside)


def _first_line(node: ast.stmt) -> int:
    decorators: Sequence[ast.expr] = getattr(node, "decorator_list", ())
    return min([node.lineno, *(each.lineno for each in decorators)])


def _header_end(node: ast.stmt) -> int:
    """The last line of a simple statement, or of what stands above a compound one's body."""
    if isinstance(node, ast.Match):
        return max(node.lineno, node.cases[0].pattern.lineno - 1)
    body: Sequence[ast.stmt] = getattr(node, "body", ())
    if isinstance(node, ast.Try | ast.TryStar):
        return node.lineno
    if body:
        return max(node.lineno, _first_line(body[0]) - 1)
    return node.end_lineno or node.lineno


def _is_compound(node: ast.stmt) -> bool:
    return isinstance(node, LOOPS | REGIONS | ast.If)


def _managed(node: ast.stmt) -> tuple[int, int] | None:
    if isinstance(node, ast.With | ast.AsyncWith):
        return node.body[0].lineno, node.end_lineno or node.lineno
    return None
