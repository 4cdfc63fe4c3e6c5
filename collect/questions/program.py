"""The parsed files of a bug: statements, literals and assertions, as read before it runs."""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from collect.benchmarks.base import Instance
from collect.code.java_tree import JavaSource
from collect.code.syntax import Function, literal, named_functions, parse
from collect.question_records import Location
from collect.questions.comparing import parse_value
from sandbox.text import source_lines

NO_STOP = (*Function.__args__, ast.ClassDef, ast.Try, ast.Global, ast.Nonlocal)
LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
NESTING = (ast.For, ast.While, ast.Try, ast.With, ast.AsyncFor, ast.AsyncWith, ast.Match)
BLOCKS = (ast.If, *NESTING)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
RESUMED = (ast.Lambda, ast.Yield, ast.YieldFrom, ast.Await)
MAY_STOP_TWICE = (*NESTING, *COMPREHENSIONS, *RESUMED)
"""Code that can make a debugger stop several times per execution of its line."""
LITERALS = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.UnaryOp)
EMPTY = {"set": "set()", "list": "[]", "dict": "{}", "tuple": "()", "str": "''"}
EMPTY |= {"frozenset": "frozenset()"}
"""What a call without arguments returns, as a literal."""
EQUAL_METHODS = ("assertEqual", "assertListEqual", "assertDictEqual", "assertTupleEqual")

JAVA_LITERAL = re.compile(
    r"(?<!\\)\"(?:[^\"\\]|\\.)*+\"|(?<!\\)'(?:[^'\\]|\\.)++'|(?<![\w.])-?\d[\d_]*(?:\.\d+)?"
)
JAVA_LEAVES = re.compile(r"\b(?:return|throw)\b")
JAVA_MAY_STOP_TWICE = re.compile(r"->|::|\b(?:for|while|do|try|switch)\b")
JAVA_NAME = re.compile(r"[A-Za-z_]\w*")
JAVA_FIELD = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")
MAX_JAVA_LINES = 12
"""Lines after a Java statement's first in which its end is looked for."""
PARSED = 128
"""Files kept parsed: a patch changes few, and the next bug is often in the same project."""


@dataclass(frozen=True)
class Statement:
    """One statement in a function."""

    place: Location
    conditional: bool
    """Whether some path through the function skips it."""
    once: bool
    """Whether a debugger stops at its line exactly once each time it runs."""
    assigned: tuple[str, ...]
    """The names that it assigns."""
    used: tuple[str, ...]
    """The names it reads."""
    attributes: tuple[str, ...]
    """The dotted names it reads: `self.limit`."""


class SourceModule(ABC):
    """One source file of a program."""

    def __init__(self, path: str, text: str) -> None:
        self.path, self.text, self.lines = path, text, source_lines(text)

    @cached_property
    @abstractmethod
    def statements(self) -> Sequence[Statement]:
        """All statements in functions, by line; only the first of each line."""

    @abstractmethod
    def literals(self, function: str | None) -> Iterator[str]:
        """Literals in a function and outside all functions; None: all of the file."""

    @abstractmethod
    def raising_lines(self, function: str) -> list[int]:
        """The lines of a function's own `raise` or `throw` statements."""

    def at(self, line: int) -> Statement | None:
        """The last-starting statement that spans this line."""
        around = [s for s in self.statements if s.place.line <= line <= s.place.last_line]
        return max(around, key=lambda each: each.place.line, default=None)


class PythonModule(SourceModule):
    """One Python file of a program."""

    def __init__(self, path: str, data: bytes, is_test: bool = False) -> None:
        """Raises SyntaxError, ValueError."""
        super().__init__(path, data.decode("utf-8", "replace"))
        self.tree, self.is_test = parse(data), is_test

    @cached_property
    def functions(self) -> Mapping[str, Function]:
        """By qualified name."""
        return dict(named_functions(self.tree))

    @cached_property
    def statements(self) -> Sequence[Statement]:
        found: dict[int, Statement] = {}
        for name, function in self.functions.items():
            for node, conditional in _body(function.body, False):
                if node.lineno in found or isinstance(node, NO_STOP):
                    continue
                parts = [part for header in _headers(node) for part in ast.walk(header)]
                reads = [part for part in parts if isinstance(getattr(part, "ctx", None), ast.Load)]
                dots = [part for part in reads if isinstance(part, ast.Attribute)]
                dotted = [ast.unparse(part) for part in dots if isinstance(part.value, ast.Name)]
                last = node.end_lineno or node.lineno
                if isinstance(node, BLOCKS):
                    ends = [part.end_lineno for part in parts if isinstance(part, ast.expr)]
                    last = max([node.lineno, *(line or 0 for line in ends)])
                repeats = any(isinstance(part, MAY_STOP_TWICE) for part in (node, *parts))
                found[node.lineno] = Statement(
                    place=Location(file=self.path, line=node.lineno, last_line=last, function=name),
                    conditional=conditional,
                    once=last == node.lineno and not repeats,
                    assigned=tuple(_assigned(node)),
                    used=tuple(dict.fromkeys(p.id for p in reads if isinstance(p, ast.Name))),
                    attributes=tuple(dict.fromkeys(dotted)),
                )
        return [found[line] for line in sorted(found)]

    def literals(self, function: str | None) -> Iterator[str]:
        """A function's include its defaults; a test's also those of the helpers and fixtures of its
        file that it uses."""
        if function is None:
            yield from _literals(self.tree)
            return
        node = self.functions.get(function)
        if node is not None:
            yield from _literals(node)
        if node is not None and self.is_test:
            calls = [part.func for part in ast.walk(node) if isinstance(part, ast.Call)]
            names = [call.id for call in calls if isinstance(call, ast.Name)]
            for name in (*names, *(argument.arg for argument in node.args.args)):
                if name in self.functions:
                    yield from _literals(self.functions[name])
        outside = list(reversed(self.tree.body))
        while outside:
            statement = outside.pop()
            if isinstance(statement, ast.ClassDef):
                outside += reversed(statement.body)
            elif not isinstance(statement, Function):
                yield from _literals(statement)

    def raising_lines(self, function: str) -> list[int]:
        node = self.functions.get(function)
        parts = ast.walk(node) if node is not None else ()
        return [part.lineno for part in parts if isinstance(part, ast.Raise)]


def _body(statements: Sequence[ast.stmt], conditional: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """Every statement of a function, without inner functions, and whether it may be skipped."""
    for node in statements:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        yield node, conditional
        if isinstance(node, BLOCKS):
            skipped = conditional or not isinstance(node, ast.With | ast.AsyncWith)
            for part in (node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                for block in ("body", "orelse", "finalbody"):
                    yield from _body(getattr(part, block, []), skipped)
            # Code after a branch that leaves the function may be skipped too.
            conditional = conditional or any(isinstance(part, LEAVES) for part in ast.walk(node))


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


def _assigned(node: ast.stmt) -> Iterator[str]:
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For):
        targets = [node.target]
    for part in (part for target in targets for part in ast.walk(target)):
        if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            yield part.id


def _literals(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and not part.args and not part.keywords:
            empty = EMPTY.get(ast.unparse(part.func))
            if empty:
                yield empty
        if isinstance(part, LITERALS) and is_literal(part):
            yield ast.unparse(part)


def is_literal(node: ast.expr | str) -> bool:
    """Whether an expression, parsed or as text, is a literal."""
    try:
        literal(node) if isinstance(node, str) else ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True


def sides_at(tree: ast.Module, line: int) -> tuple[str, str | None] | None:
    """The actual and the expected expression of the assertion at a line; the second is None if it
    compares with nothing. None if there is no assertion or it is unclear."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or 0):
            continue
        match node:
            case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq() | ast.Is()]) as test):
                right = test.comparators[0]
                if is_literal(left) and not is_literal(right):
                    left, right = right, left
                return ast.unparse(left), ast.unparse(right)
            case ast.Assert(test=ast.Compare() | ast.BoolOp()):
                return None
            case ast.Assert(test=ast.UnaryOp(op=ast.Not(), operand=shown)) | ast.Assert(test=shown):
                return ast.unparse(shown), None
            case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name), args=[one, other, *_])):
                is_equal = name in EQUAL_METHODS
                return (ast.unparse(one), ast.unparse(other)) if is_equal else None
            case ast.Expr(value=ast.Call()):
                return None
    return None


class JavaModule(SourceModule):
    """One Java file of a program."""

    def __init__(self, path: str, data: bytes) -> None:
        """Raises ValueError if it has no type."""
        super().__init__(path, data.decode("utf-8", "replace"))
        source = JavaSource.read(data)
        if source is None:
            raise ValueError(f"{path} has no type")
        self._source = source

    @cached_property
    def statements(self) -> Sequence[Statement]:
        found: dict[int, Statement] = {}
        for function in self._source.functions:
            lines = self._source.stops(function)
            own = min((self._indent(line) for line in lines), default=0)
            left = False
            for line in lines:
                code, inside = self._code(line), self._indent(line) > own
                conditional = inside or left
                left = left or (inside and JAVA_LEAVES.search(code) is not None)
                if line in found:
                    continue
                last, limit = line, min(line + MAX_JAVA_LINES, function.last)
                while last < limit and not self._code(last).endswith((";", "{", "}")):
                    last += 1
                probes = self._source.probes(line, function.name)
                place = Location(file=self.path, line=line, last_line=last, function=function.name)
                found[line] = Statement(
                    place=place,
                    conditional=conditional,
                    once=last == line and JAVA_MAY_STOP_TWICE.search(code) is None,
                    assigned=tuple(filter(JAVA_NAME.fullmatch, self._source.assigned(line))),
                    used=tuple(filter(JAVA_NAME.fullmatch, probes)),
                    attributes=tuple(filter(JAVA_FIELD.fullmatch, probes)),
                )
        return [found[line] for line in sorted(found)]

    def literals(self, function: str | None) -> Iterator[str]:
        """A method's come with those of initialisers."""
        if function is None:
            yield from JAVA_LITERAL.findall(self.text)
            return
        for number, text in enumerate(self.lines, 1):
            around = [each for each in self._source.functions if each.first <= number <= each.last]
            names = [each.name for each in around if not each.name.endswith("init>")]
            if not names or function in {each.name for each in around}:
                yield from JAVA_LITERAL.findall(text)

    def raising_lines(self, function: str) -> list[int]:
        own = [each for each in self._source.functions if each.name == function]
        lines = [line for each in own for line in self._source.stops(each)]
        return [line for line in lines if self._code(line).startswith("throw ")]

    def _code(self, line: int) -> str:
        return self.lines[line - 1].partition("//")[0].strip()

    def _indent(self, line: int) -> int:
        text = self.lines[line - 1]
        return len(text) - len(text.lstrip())


def is_test_file(instance: Instance, path: str) -> bool:
    """Whether a file belongs to the tests."""
    named = {test.partition("::")[0] for test in instance.public_tests}
    folders = tuple(f"{top.rstrip('/')}/" for top in instance.test_paths)
    below, name = path in instance.test_paths or path.startswith(folders), path.rpartition("/")[2]
    return below or path in named or name == "conftest.py" or name.startswith("test_")


class Program:
    """The parsed files of a bug. Invalid files, and files in other languages, are left out."""

    def __init__(self, instance: Instance, files: Mapping[str, bytes]) -> None:
        self.modules: dict[str, SourceModule] = {}
        """The program's own files."""
        self.tests: dict[str, SourceModule] = {}
        self._written: dict[tuple[str, str, str], Sequence[object]] = {}
        for path, data in sorted(files.items()):
            is_test = is_test_file(instance, path)
            module = _read(path, data, is_test)
            if module is not None:
                (self.tests if is_test else self.modules)[path] = module

    def module(self, path: str) -> SourceModule | None:
        """The module at a path, in the program or the tests."""
        return self.modules.get(path) or self.tests.get(path)

    def written_out(self, file: str, function: str, test: str) -> Sequence[object]:
        """The parsed literals in the places where one would look for a function's values; kept,
        since this is asked for each of hundreds of values."""
        key = file, function, test
        if key not in self._written:
            module = self.module(file)
            texts = list(module.literals(function)) if module is not None else []
            path, _, name = test.partition("::")
            for other, tests in self.tests.items():
                if other == path:
                    texts += tests.literals(name.partition("[")[0].replace("::", "."))
                elif other.endswith("conftest.py"):
                    texts += tests.literals(None)
            self._written[key] = [parse_value(text) for text in dict.fromkeys(texts)]
        return self._written[key]


@lru_cache(maxsize=PARSED)
def _read(path: str, data: bytes, is_test: bool) -> SourceModule | None:
    try:
        if path.endswith(".java"):
            return JavaModule(path, data)
        return PythonModule(path, data, is_test) if path.endswith(".py") else None
    except (SyntaxError, ValueError):
        return None
