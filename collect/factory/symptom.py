"""What is seen of a bug from outside: the test that fails, and how; not where the fault is."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from collect.benchmarks.pytest_output import section_of
from collect.factory.comparisons import raising

_FRAME = re.compile(r"^(\S+\.py):(\d+): in (\S+)\n((?: {4}.*(?:\n|\Z))*)", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_IDENTIFIER = re.compile(
    r"[A-Za-z]+_\w*|_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|\w+(?=\()|(?<=\.)\w+"
)
_OF_TESTS = re.compile(r"(?:^|\.)(?:tests?|testing|conftest|test_\w+|\w+_test|\w*helpers?)(?:\.|$)")
"""In the name of a module."""
_KNOWN = {*dir(builtins), *keyword.kwlist, "self", "cls"}


@dataclass(frozen=True)
class Symptom:
    """How one bug shows."""

    project: str
    tests: tuple[str, ...]
    """Node ids of the failing tests."""
    source: str
    """Text of the first failing test's function; empty where it can't be found."""
    imports: tuple[str, ...]
    """The import statements of the test's module."""
    exception: str
    """The class that the first failing test fails with, without its module."""
    message: str
    """The exception's own text, as pytest shows it."""
    statement: str
    """Text of the test's statement that fails; empty where it fails before or after itself."""
    line: int = 0
    """The first line of that statement in `source`, 1-based; 0 where there is none."""
    expected_exception: str = ""
    """What the test wants that statement to raise, as it is written there."""
    helpers: frozenset[str] = frozenset()
    """Names of the tests' own functions and classes, and of the standard library's."""
    hidden: frozenset[str] = frozenset()
    """Names that the traceback shows and the test does not: no report may have them."""


def read_symptom(
    project: str,
    tests: Sequence[str],
    *,
    files: Mapping[str, bytes],
    exception: str,
    message: str,
    output: str,
) -> Symptom:
    """The symptom from what pytest printed with `--tb=short`.

    `files` is the project's tree; `exception` and `message` are those of the first test's failure,
    the message with or without the exception's name in front.
    """
    path, *names = tests[0].partition("[")[0].split("::")
    frames = list(_frames(section_of(tests[0], output)))
    # A test that its class inherits may be of another file.
    inside = next((frame for frame in frames if frame.function == names[-1]), None)
    module = files.get(inside.path if inside else path, b"").decode(errors="replace")
    tree = _parsed(module)
    function = _function(tree, names, inside)
    source = _segment(module, function)
    imports = tuple(_imports(module, tree))
    outside = [frame for frame in frames if inside is None or frame.path != inside.path]
    around = _around(function, inside)
    failing = around[0] if around else None
    shown = {*_WORD.findall(source), *_WORD.findall("\n".join(imports)), exception}
    return Symptom(
        project=project,
        tests=tuple(tests),
        source=source,
        imports=imports,
        exception=exception,
        message=re.sub(rf"^(?:\w+\.)*{re.escape(exception)}(?:: |\n|$)", "", message),
        statement=_segment(module, failing),
        line=failing.lineno - function.lineno + 1 if failing and function else 0,
        expected_exception=_expected_exception(module, around),
        helpers=frozenset(_helpers(tree)),
        hidden=frozenset(name for frame in outside for name in frame.names()) - shown - _KNOWN,
    )


@dataclass(frozen=True)
class _Frame:
    """One line of a traceback."""

    path: str
    line: int
    function: str
    code: str

    def names(self) -> Iterator[str]:
        """Of the file, its folder and the function, and what looks like a name in the code."""
        yield from (part for part in re.split(r"[/\\]|\.py$", self.path)[-3:] if part)
        yield self.function
        yield from _IDENTIFIER.findall(self.code)


def _frames(report: str) -> Iterator[_Frame]:
    for found in _FRAME.finditer(report):
        yield _Frame(found[1], int(found[2]), found[3], found[4])


def _parsed(module: str) -> ast.Module:
    try:
        return ast.parse(module)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _imports(module: str, tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level):
            yield ast.get_source_segment(module, node) or ""


def _function(
    tree: ast.Module, names: Sequence[str], inside: _Frame | None
) -> ast.FunctionDef | None:
    """The test's function: the one that a frame is in, or else the one of the test's name."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name != names[-1]:
            continue
        if inside is None or node.lineno <= inside.line <= (node.end_lineno or 0):
            return node
    return None


def _segment(module: str, node: ast.AST | None) -> str:
    """Its text, as at the left margin."""
    if node is None:
        return ""
    return textwrap.dedent(ast.get_source_segment(module, node, padded=True) or "")


def _around(function: ast.FunctionDef | None, inside: _Frame | None) -> list[ast.stmt]:
    """The statements of the test that its traceback begins in, the innermost first."""
    if function is None or inside is None:
        return []
    around = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.stmt) and node.lineno <= inside.line <= (node.end_lineno or 0)
    ]
    around.remove(function)
    return sorted(around, key=lambda node: (node.end_lineno or 0) - node.lineno)


def _expected_exception(module: str, around: Sequence[ast.stmt]) -> str:
    manager = next((found for found in map(raising, around) if found is not None), None)
    return "" if manager is None else ast.get_source_segment(module, manager.args[0]) or ""


def _helpers(tree: ast.Module) -> Iterator[str]:
    """What the test's module defines, and what it takes from other modules of tests or from the
    standard library."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.ImportFrom) and _is_of_tests(node):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Import):
            names = [alias for alias in node.names if _is_foreign(alias.name)]
            yield from (alias.asname or alias.name for alias in names)


def _is_of_tests(statement: ast.ImportFrom) -> bool:
    if statement.module is None:
        return statement.level == 1
    return _is_foreign(statement.module)


def _is_foreign(module: str) -> bool:
    """Whether a module is not the project's own code, as far as its name tells."""
    standard = module.partition(".")[0] in sys.stdlib_module_names
    return standard or _OF_TESTS.search(module) is not None
