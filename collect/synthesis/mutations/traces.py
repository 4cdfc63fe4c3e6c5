"""What an edit leaves behind that gives it away: a name that nothing uses any more, a comment about
code that is gone."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from collect.code.syntax import parse

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_WORD = re.compile(r"[A-Za-z_]\w{3,}")


def leaves_trace(before: str, after: str) -> bool:
    """Whether, only after an edit, an import, parameter, variable or private function is unused, or
    a function's comments name what its code no longer does.

    Raises SyntaxError, ValueError.
    """
    (old_names, _), (names, words) = _words(before), _words(after)
    unused = _unused(after) - _unused(before)
    return bool(unused or (old_names - names) & words)


@lru_cache(64)
def _words(code: str) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """The names of each function's code, and all words of its source, comments and docstring
    included; each with the function."""
    lines, names, words = code.splitlines(), set[tuple[str, str]](), set[tuple[str, str]]()
    for node in ast.walk(parse(code)):
        if isinstance(node, _FUNCTIONS):
            text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            words.update((node.name, word) for word in _WORD.findall(text))
            own = {*_names_read(node), *_bound_in_function(node)}
            names.update((node.name, name) for name in own)
    return names, words


@lru_cache(64)
def _unused(code: str) -> Counter[tuple[str, str]]:
    """Names that nothing reads, with the function that binds them; empty for the module."""
    tree = parse(code)
    known = set(_names_read(tree))
    found = Counter(("", name) for name in _bound_in_module(tree) if name not in known)
    for function in ast.walk(tree):
        if isinstance(function, _FUNCTIONS):
            read = set(_names_read(function))
            bound = set(_bound_in_function(function))
            found.update((function.name, name) for name in bound - read)
    return found


def _names_read(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(name, ast.Load()) | ast.Attribute(attr=name, ctx=ast.Load()):
                yield name
            case ast.Global(names) | ast.Nonlocal(names):
                yield from names
            case ast.Constant(str(text)) if text.isidentifier():
                yield text  # in `__all__`, say


def _bound_in_module(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import(names) | ast.ImportFrom(names=names):
                yield from ((each.asname or each.name).partition(".")[0] for each in names)
            case ast.FunctionDef(name) if name.startswith("_") and not name.endswith("__"):
                yield name


def _bound_in_function(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        match node:
            case ast.Name(name, ast.Store()):
                yield name
            case ast.arg(name) if name not in ("self", "cls"):
                yield name
