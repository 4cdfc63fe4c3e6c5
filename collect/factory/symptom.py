"""What is seen of a bug from outside: the test that fails, and how; not where the fault is."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_FRAME = re.compile(r"^(\S+\.py):(\d+): in (\S+)\n((?: {4}.*(?:\n|\Z))*)", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_IDENTIFIER = re.compile(
    r"[A-Za-z]+_\w*|_\w+|[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|\w+(?=\()|(?<=\.)\w+"
)
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
    hidden: frozenset[str] = frozenset()
    """Names that the traceback shows and the test does not: no report may have them."""


def read_symptom(
    project: str,
    tests: Sequence[str],
    *,
    module: str,
    exception: str,
    message: str,
    output: str,
) -> Symptom:
    """The symptom from what pytest printed with `--tb=short`.

    `module` is the source of the first failing test's file; `exception` and `message` are those of
    its failure, the message with or without the exception's name in front.
    """
    path, *names = tests[0].partition("[")[0].split("::")
    tree = _parsed(module)
    function = _function(tree, names)
    source = _segment(module, function)
    imports = tuple(
        ast.get_source_segment(module, node) or ""
        for node in tree.body
        if isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level)
    )
    shown = {*_WORD.findall(source), *_WORD.findall("\n".join(imports)), exception}
    return Symptom(
        project=project,
        tests=tuple(tests),
        source=source,
        imports=imports,
        exception=exception,
        message=re.sub(rf"^(?:\w+\.)*{re.escape(exception)}(?:: |\n|$)", "", message),
        statement=_segment(module, _failing(function, path, names, output)),
        hidden=frozenset(_hidden(path, output)) - shown - _KNOWN,
    )


def _parsed(module: str) -> ast.Module:
    try:
        return ast.parse(module)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def _function(tree: ast.Module, names: Sequence[str]) -> ast.AST | None:
    found: ast.AST | None = tree
    for name in names:
        definitions = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        body: list[ast.stmt] = getattr(found, "body", [])
        found = next(
            (node for node in body if isinstance(node, definitions) and node.name == name), None
        )
    return found if isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef) else None


def _segment(module: str, node: ast.AST | None) -> str:
    """Its text, as at the left margin."""
    if node is None:
        return ""
    return textwrap.dedent(ast.get_source_segment(module, node, padded=True) or "")


def _failing(
    function: ast.AST | None, path: str, names: Sequence[str], output: str
) -> ast.stmt | None:
    """The innermost statement of the test in which its traceback begins."""
    if function is None:
        return None
    for frame in _FRAME.finditer(output):
        if frame[1] == path and frame[3] == names[-1]:
            line = int(frame[2])
            around = [
                node
                for node in ast.walk(function)
                if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
            ]
            around = [node for node in around if node is not function]
            return min(around, key=lambda node: (node.end_lineno or 0) - node.lineno, default=None)
    return None


def _hidden(path: str, output: str) -> Iterator[str]:
    """The names in the traceback's frames outside the test's file: of files, functions, and what
    looks like a name in their lines."""
    for frame in _FRAME.finditer(output):
        if frame[1] != path:
            yield from (part for part in re.split(r"[/\\]|\.py$", frame[1])[-2:] if part)
            yield frame[3]
            yield from _IDENTIFIER.findall(frame[4])
