"""What an edit leaves behind that gives it away: a name that nothing uses any more, a flag that is
never set, a comment about code that is gone."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from collect.code.syntax import parse

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_WORD = re.compile(r"[A-Za-z_]\w{3,}")


def leaves_trace(before: str, after: str) -> bool:
    """Whether, only after an edit, an import, parameter, variable or private function is unused, a
    variable or attribute is read whose value never changes, or a function's comments name what its
    code no longer does.

    Raises SyntaxError, ValueError.
    """
    old, new = _words(before), _words(after)
    return bool(
        _unused(after) - _unused(before)
        or (_changing(before) - _changing(after)) & new.names
        or (old.names - new.names) & new.texts
    )


@lru_cache(64)
def _changing(code: str) -> set[tuple[str, str]]:
    """Variables and attributes that a function sets to more than one and the same constant or empty
    collection, or fills, with the function. An attribute may be set anywhere."""
    values: dict[tuple[str, str], set[object]] = {}
    fixed: dict[ast.AST, str] = {}

    def stored(target: ast.AST) -> set[object]:
        """One constant, or two for any value."""
        return {fixed[target]} if target in fixed else {target, "other"}

    tree = parse(code)
    functions = [each for each in ast.walk(tree) if isinstance(each, _FUNCTIONS)]
    for function in functions:
        for node in ast.walk(function):  # An assignment comes before its target.
            match node:
                case ast.Assign([target], value) if _is_fixed(value):
                    fixed[target] = ast.dump(value)
                case ast.Name(name, ast.Store()):
                    values.setdefault((function.name, name), set()).update(stored(node))
                case ast.Attribute(attr=name, ctx=ast.Store()):
                    for reader in functions:
                        values.setdefault((reader.name, name), set()).update(stored(node))
                case ast.Call(ast.Attribute(ast.Name(name))) | ast.Subscript(
                    ast.Name(name), ctx=ast.Store()
                ):
                    values.setdefault((function.name, name), set()).add(node)
                case ast.Call(args=args):
                    for part in args:
                        if isinstance(part, ast.Name):
                            values.setdefault((function.name, part.id), set()).add(node)
    return {key for key, found in values.items() if len(found) > 1}


def _is_fixed(value: ast.expr) -> bool:
    match value:
        case ast.Constant() | ast.List([]) | ast.Dict([]):
            return True
        case ast.Call(ast.Name("set" | "list" | "dict"), [], []):
            return True
    return False


class _Words(NamedTuple):
    """Words with the function that they are in."""

    names: set[tuple[str, str]]
    texts: set[tuple[str, str]]
    """All of its source, with comments and docstring."""


@lru_cache(64)
def _words(code: str) -> _Words:
    lines, words = code.splitlines(), _Words(set(), set())
    for node in ast.walk(parse(code)):
        if isinstance(node, _FUNCTIONS):
            text = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            names = {*_names_read(node), *_bound_in_function(node)}
            words.texts.update((node.name, word) for word in _WORD.findall(text))
            words.names.update((node.name, name) for name in names)
    return words


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
