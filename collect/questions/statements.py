"""The statements of a Python program that a question can name, and what they work on."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from collect.benchmarks.base import Instance
from collect.questions.records import Location
from collect.syntax import parse

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
"""What makes a debugger stop at a line more often than its statement is begun."""
LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
NO_STOP = (*SCOPES, ast.Try, ast.Global, ast.Nonlocal)


@dataclass(frozen=True)
class Statement:
    """One statement in a function."""

    place: Location
    source: str
    """Its first line, without indentation."""
    conditional: bool
    """Whether another way through the function leaves it out."""
    once: bool
    """Whether a debugger stops at its line exactly once each time it runs."""
    assigned: tuple[str, ...]
    """The names it gives values."""
    used: tuple[str, ...]
    """The names it reads."""
    attributes: tuple[str, ...]
    """The dotted names it reads: `self.limit`."""


class Module:
    """One source file of a program."""

    def __init__(self, path: str, data: bytes) -> None:
        """Raises SyntaxError, ValueError."""
        self.path = path
        self.text = data.decode("utf-8", "replace")
        self.lines = self.text.splitlines()
        self.tree = parse(data)

    @cached_property
    def statements(self) -> Sequence[Statement]:
        """All statements in functions, in the order of their lines, the first of each line."""
        found: dict[int, Statement] = {}
        for name, function in self.functions.items():
            for node, conditional in _body(function.body, False):
                if not isinstance(node, NO_STOP):
                    found.setdefault(node.lineno, self._statement(node, name, conditional))
        return [found[line] for line in sorted(found)]

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """By qualified name, as the debugger shows it."""
        return dict(_functions(self.tree, ""))

    def at(self, line: int) -> Statement | None:
        """The innermost statement whose lines hold this one."""
        around = [s for s in self.statements if s.place.line <= line <= s.place.last_line]
        return max(around, key=lambda each: each.place.line, default=None)

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


@dataclass(frozen=True)
class Program:
    """The parsed files of a bug: the program's own, and the tests."""

    modules: Mapping[str, Module]
    tests: Mapping[str, Module]

    @classmethod
    def of(cls, instance: Instance, files: Mapping[str, bytes]) -> Program:
        """Files that are no valid Python are left out."""
        modules: dict[str, Module] = {}
        tests: dict[str, Module] = {}
        for path, data in sorted(files.items()):
            if not path.endswith(".py"):
                continue
            try:
                module = Module(path, data)
            except (SyntaxError, ValueError):
                continue
            (tests if is_test_file(instance, path) else modules)[path] = module
        return cls(modules, tests)

    def module(self, path: str) -> Module | None:
        """The module at a path, wherever it belongs."""
        return self.modules.get(path) or self.tests.get(path)


def is_test_file(instance: Instance, path: str) -> bool:
    """Whether a file belongs to the tests."""
    named = {test.partition("::")[0] for test in instance.public_tests}
    below = any(
        path == top or path.startswith(f"{top.rstrip('/')}/") for top in instance.test_paths
    )
    name = path.rpartition("/")[2]
    return below or path in named or name == "conftest.py" or name.startswith("test_")


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
    """Every statement of a function with whether it can be left out; inner functions not."""
    for node in statements:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node, conditional
        if isinstance(node, BLOCKS):
            certain = isinstance(node, ast.With | ast.AsyncWith)
            for block in _blocks(node):
                yield from _body(block, conditional or not certain)
            # What follows a branch that leaves the function is not always run either.
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
