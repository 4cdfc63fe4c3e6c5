"""Reads a Python file for questions: its statements and literals."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from collect.code.syntax import parse
from collect.question_records import Location
from collect.questions.sides import is_literal
from collect.questions.statements import Statement, innermost
from sandbox.text import source_lines

Function = ast.FunctionDef | ast.AsyncFunctionDef
SCOPES = (*Function.__args__, ast.ClassDef)
BLOCKS = (ast.If, ast.For, ast.While, ast.Try, ast.With, ast.AsyncFor, ast.AsyncWith, ast.Match)
MAY_STOP_TWICE = (
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.Lambda,
    ast.Yield,
    ast.YieldFrom,
    ast.Await,
    ast.For,
    ast.While,
    ast.With,
    ast.Try,
    ast.AsyncFor,
    ast.AsyncWith,
    ast.Match,
)
"""Expressions that can make a debugger stop several times per execution of their line."""
EMPTY = {
    "set": ("set()",),
    "frozenset": ("frozenset()",),
    "list": ("[]",),
    "dict": ("{}",),
    "tuple": ("()",),
    "str": ("''",),
}
"""What a call without arguments returns, as a literal."""
LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
NO_STOP = (*SCOPES, ast.Try, ast.Global, ast.Nonlocal)


class PythonModule:
    """One Python file of a program."""

    def __init__(self, path: str, data: bytes, is_test: bool = False) -> None:
        """Raises SyntaxError, ValueError."""
        self.path, self.is_test = path, is_test
        self.text = data.decode("utf-8", "replace")
        self.lines = source_lines(self.text)
        self.tree = parse(data)

    @cached_property
    def statements(self) -> Sequence[Statement]:
        """All statements in functions, by line; only the first of each line."""
        found: dict[int, Statement] = {}
        for name, function in self.functions.items():
            for node, conditional in _body(function.body, False):
                if not isinstance(node, NO_STOP):
                    found.setdefault(node.lineno, self._statement(node, name, conditional))
        return [found[line] for line in sorted(found)]

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """Functions by qualified name, as shown by the debugger."""
        return dict(_functions(self.tree, ""))

    def at(self, line: int) -> Statement | None:
        """The innermost statement that spans this line."""
        return innermost(self.statements, line)

    def literals(self, function: str) -> Iterator[str]:
        """Literals in a function, in its defaults and at module level; for a test also in the
        helpers and fixtures of its file that it uses.
        """
        node = self.functions.get(function)
        if node is not None:
            yield from _literals(node)
            for name in _called(node) if self.is_test else ():
                if name in self.functions:
                    yield from _literals(self.functions[name])
        for statement in _outside(self.tree.body):
            yield from _literals(statement)

    def all_literals(self) -> Iterator[str]:
        """All literals of the file."""
        yield from _literals(self.tree)

    def raising_lines(self, function: str) -> list[int]:
        """The lines of a function's `raise` statements."""
        node = self.functions.get(function)
        parts = ast.walk(node) if node is not None else ()
        return [part.lineno for part in parts if isinstance(part, ast.Raise)]

    def _statement(self, node: ast.stmt, function: str, conditional: bool) -> Statement:
        parts = [part for header in _headers(node) for part in ast.walk(header)]
        reads = [part for part in parts if isinstance(getattr(part, "ctx", None), ast.Load)]
        return Statement(
            place=Location(
                file=self.path, line=node.lineno, last_line=_last_line(node), function=function
            ),
            source=self.lines[node.lineno - 1].strip(),
            conditional=conditional,
            once=_last_line(node) == node.lineno
            and not any(isinstance(part, MAY_STOP_TWICE) for part in [node, *parts]),
            assigned=tuple(_assigned(node)),
            used=_unique(part.id for part in reads if isinstance(part, ast.Name)),
            attributes=_unique(
                ast.unparse(part)
                for part in reads
                if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name)
            ),
        )


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, SCOPES):
            name = f"{prefix}{child.name}"
            if isinstance(child, Function):
                yield name, child
            yield from _functions(child, f"{name}.")
        else:
            yield from _functions(child, prefix)


def _body(statements: Sequence[ast.stmt], conditional: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement of a function, without inner functions, and whether it may be skipped."""
    for node in statements:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node, conditional
        if isinstance(node, BLOCKS):
            certain = isinstance(node, ast.With | ast.AsyncWith)
            for block in _blocks(node):
                yield from _body(block, conditional or not certain)
            # Code after a branch that leaves the function may be skipped too.
            conditional = conditional or any(isinstance(part, LEAVES) for part in ast.walk(node))


def _blocks(node: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(node, name, [])
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def _headers(node: ast.stmt) -> list[ast.AST]:
    """The parts of a statement that run at its own line."""
    match node:
        case ast.If() | ast.While():
            return [node.test]
        case ast.For() | ast.AsyncFor():
            return [node.target, node.iter]
        case ast.With() | ast.AsyncWith():
            return list(node.items)
        case ast.Try():
            return []
        case ast.Match():
            return [node.subject]
        case _:
            return [node]


def _last_line(node: ast.stmt) -> int:
    if isinstance(node, BLOCKS):
        parts = [part for header in _headers(node) for part in ast.walk(header)]
        ends = [part.end_lineno for part in parts if isinstance(part, ast.expr)]
        return max([node.lineno, *(line for line in ends if line)])
    return node.end_lineno or node.lineno


def _assigned(node: ast.stmt) -> list[str]:
    targets: list[ast.expr] = []
    match node:
        case ast.Assign():
            targets = node.targets
        case ast.AugAssign() | ast.AnnAssign() | ast.For():
            targets = [node.target]
    names = [part for target in targets for part in ast.walk(target)]
    return [
        part.id for part in names if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
    ]


def _unique(names: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _called(node: ast.AST) -> list[str]:
    """The names that a function calls or takes as fixtures."""
    calls = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
    names = [call.id for call in calls if isinstance(call, ast.Name)]
    if isinstance(node, Function):
        names += [argument.arg for argument in node.args.args]
    return names


def _outside(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _outside(statement.body)
        elif not isinstance(statement, Function):
            yield statement


def _literals(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and not part.args and not part.keywords:
            yield from EMPTY.get(ast.unparse(part.func), ())
        kinds = ast.Constant | ast.List | ast.Tuple | ast.Dict | ast.Set | ast.UnaryOp
        if isinstance(part, kinds) and is_literal(part):
            yield ast.unparse(part)
