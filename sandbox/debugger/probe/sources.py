"""One source file, by this interpreter's compiler: its text, functions and executable lines."""

from __future__ import annotations

import ast
import dis
import re
import types
from contextlib import suppress
from typing import Iterator, NamedTuple, Tuple

from .interpreter import body_lines, entry_offset, line_at
from .own import source_lines
from .statements import failure_lines, statements, unseen_lines

NEW_LOCALS = 2
"""Flag of a function's code, unlike a class body's."""
NOT_COMPILED = (SyntaxError, ValueError, MemoryError, RecursionError)
"""What the compiler raises for a bad text; the last two for one that is nested too deeply."""


class Function(NamedTuple):
    """One function of a source file."""

    qualified: str
    first_line: int
    """The first decorator's line, as in `co_firstlineno`."""
    def_line: int
    body_line: int
    """The first statement after the docstring."""
    is_stub: bool
    """Whether it never runs: it is an overload, or there for type checkers alone."""

    @property
    def name(self) -> str:
        return self.qualified.rpartition(".")[2]


Signature = Tuple[str, int, Tuple[str, ...], object, Tuple[int, ...]]


def signature(code: types.CodeType) -> Signature:
    """What tells code of one text of a file from code of another."""
    lines = tuple(line for _, line in dis.findlinestarts(code) if line)
    values = constant_key(code.co_consts)
    return code.co_name, code.co_firstlineno, code.co_names, values, lines


PLAIN_CONSTANTS = (type(None), type(...), bool, int, float, complex, str, bytes)


def constant_key(value: object) -> object:
    """What tells a constant from another; None for a function's code, and for objects of its own
    that the program has put in place of constants, whose code does not run."""
    kind = type(value)
    if kind is tuple:
        return tuple(map(constant_key, value))  # type: ignore[call-overload]
    if kind is frozenset:
        return frozenset(map(constant_key, value))  # type: ignore[call-overload]
    is_plain = any(kind is known for known in PLAIN_CONSTANTS)
    return repr(value) if is_plain else None


def signatures(code: types.CodeType) -> Iterator[Signature]:
    """Those of code, and of all code in it."""
    yield signature(code)
    for inner in code.co_consts:
        if type(inner) is types.CodeType:
            yield from signatures(inner)


class Newer(NamedTuple):
    """A text that a file got after it was first read."""

    lines: list[str]
    signatures: frozenset[Signature]
    """Empty if it can't be compiled."""


def newer_text(path: str, data: bytes) -> Newer:
    own: frozenset[Signature] = frozenset()
    with suppress(*NOT_COMPILED):
        own = frozenset(signatures(compile(data, path, "exec", dont_inherit=True)))
    return Newer(lines_of(data), own)


class SourceFile:
    """The functions and executable lines of one file, by this interpreter's compiler."""

    def __init__(self, path: str, data: bytes) -> None:
        tree = ast.parse(data, path)
        self.statements = statements(tree)
        """By line: the statement that it is a part of."""
        self.unseen = unseen_lines(tree)
        self.functions: list[Function] = []
        self._collect(tree, "", False)
        self.unnamed: list[Function] = []
        """Lambdas, generator expressions and the like, qualified by what they are in."""
        self.owners: dict[int, set[tuple[str, int]]] = {}
        self.entry_lines: dict[tuple[str, int], int] = {}
        self.lambdas: dict[int, str] = {}
        """Lambdas with a body on a line that another code object owns."""
        self.classes: dict[tuple[str, int], str] = {}
        """The class around each code object, or that of which it is the body; empty if none is."""
        code = compile(tree, path, "exec", dont_inherit=True)
        headers = {
            line
            for function in self.functions
            for line in range(function.first_line, max(function.def_line + 1, function.body_line))
        }
        self._own(code, "", set(), headers | failure_lines(tree))
        self.signatures = frozenset(signatures(code))
        self._enclose(code, "")

    def _collect(self, node: ast.AST, prefix: str, is_typing: bool) -> None:
        """`is_typing`: the node is there for type checkers alone."""
        unseen = node.body if isinstance(node, ast.If) and named(node.test, "TYPE_CHECKING") else []
        for child in ast.iter_child_nodes(node):
            name = prefix
            is_stub = is_typing or child in unseen
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                name = prefix + child.name
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                body = child.body[1:] if ast.get_docstring(child) is not None else child.body
                line = (body or child.body)[0].lineno
                overloads = any(named(mark, "overload") for mark in child.decorator_list)
                found = Function(name, first, child.lineno, line, is_stub or overloads)
                self.functions.append(found)
                name += "."
            elif isinstance(child, ast.ClassDef):
                name = prefix + child.name + "."
            self._collect(child, name, is_stub)

    def _own(
        self, code: types.CodeType, qualified: str, taken: set[int], headers: set[int]
    ) -> None:
        """Assign each line to the outermost code object that runs it, function headers to none."""
        lines = {line for line in body_lines(code) if line not in headers}
        first, entry = code.co_firstlineno, line_at(code, entry_offset(code))
        if qualified and code.co_name.startswith("<"):
            self.unnamed.append(Function(qualified, first, first, entry, is_stub=False))
        if code.co_name == "<lambda>":
            self.lambdas.update(dict.fromkeys(lines & taken, qualified))
        own = lines - taken
        for line in own:
            self.owners.setdefault(line, set()).add((code.co_name, first))
        self.entry_lines[code.co_name, first] = entry
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                inner = f"{qualified}.{constant.co_name}".lstrip(".")
                self._own(constant, inner, taken | own, headers)

    def _enclose(self, code: types.CodeType, around: str) -> None:
        self.classes[code.co_name, code.co_firstlineno] = around
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                is_body = not inner.co_flags & NEW_LOCALS
                self._enclose(inner, inner.co_name if is_body else around)

    def function_at(self, line: int) -> Function | None:
        """The function whose header (decorators, signature, docstring) contains a line."""
        for function in self.functions:
            if function.first_line <= line < max(function.def_line + 1, function.body_line):
                return function
        return None


def named(node: ast.AST, name: str) -> bool:
    """Whether it is `name`, or `module.name`."""
    return getattr(node, "id", None) == name or getattr(node, "attr", None) == name


COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
BLANK = re.compile(rb"[ \t\f]*(?:#|$)")


def decode_source(data: bytes) -> str:
    """The text of a source file, by its BOM or its coding cookie (PEP 263).

    `tokenize.detect_encoding` refuses some files that CPython runs.
    """
    encoding = "utf-8-sig"
    for line in data.splitlines()[:2]:
        found = COOKIE.match(line)
        if found is not None and not data.startswith(b"\xef\xbb\xbf"):
            encoding = found.group(1).decode("ascii")
        if found is not None or not BLANK.match(line):
            break
    try:
        return data.decode(encoding, "replace")
    except (LookupError, ValueError):
        return data.decode("utf-8", "replace")


def lines_of(data: bytes) -> list[str]:
    return source_lines(decode_source(data))
