"""What the oracle reads out of Python source: where to stop, and what is worth looking at there."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from dataclasses import dataclass

from collect.patches import ChangedRange

PURE_CALLS = {"len", "min", "max", "sum", "abs", "sorted", "isinstance", "int", "str", "float"}
LOOKED_AT = (ast.Name, ast.Attribute, ast.Subscript, ast.Compare, ast.BoolOp, ast.BinOp)
HAS_EFFECTS = (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr, ast.Lambda, ast.comprehension)
OWN_SCOPE = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Place:
    """Where to stop for a range of lines."""

    line: int
    function: str
    """Qualified name; empty at module level."""


def parse(source: bytes) -> ast.Module | None:
    """The syntax tree; None where the file is no valid Python."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Every function with its qualified name."""
    yield from _functions(tree, "")


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if isinstance(child, Function):
                yield name, child
            yield from _functions(child, f"{name}.")
        else:
            yield from _functions(child, prefix)


def function_at(tree: ast.Module, line: int) -> tuple[str, Function] | None:
    """The innermost function around a line, decorators and signature included."""
    around = [
        (name, node)
        for name, node in functions(tree)
        if first_line(node) <= line <= (node.end_lineno or node.lineno)
    ]
    return max(around, key=lambda found: found[1].lineno, default=None)


def first_line(node: Function) -> int:
    """Where a function begins, its decorators included."""
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def place_to_stop(tree: ast.Module, changed: ChangedRange) -> Place:
    """A statement that can be stopped at within a range of lines, or else next to it.

    For an insertion it is the one before which something is missing.
    """
    start, end = changed.start, changed.end
    found = function_at(tree, end) or function_at(tree, start)
    name, scope = found if found else ("", tree)
    lines = sorted(statement.lineno for statement in _statements(scope))
    inside = [line for line in lines if start <= line <= end]
    if inside:
        return Place(inside[-1] if changed.insertion else inside[0], name)
    before = [line for line in lines if line < start]
    return Place(before[-1] if before else (lines[0] if lines else start), name)


def _statements(scope: ast.Module | Function) -> Iterator[ast.stmt]:
    """Statements of a scope, those of functions inside it left out, and its docstring."""
    pending: list[ast.AST] = list(scope.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt) and not _is_docstring(node):
            yield node
        if not isinstance(node, Function | ast.ClassDef):
            pending += ast.iter_child_nodes(node)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def probes(tree: ast.Module, line: int) -> list[str]:
    """Expressions of the statement at a line that can be evaluated without changing anything.

    Larger ones come before their parts.
    """
    found: dict[str, None] = {}
    for header in _headers(tree, line):
        for node in _same_scope(header):
            if isinstance(node, LOOKED_AT) and _is_pure(node) and not _is_callee(node, header):
                found[ast.unparse(node)] = None
    return list(found)


def _same_scope(node: ast.AST) -> Iterator[ast.AST]:
    """The node and its parts, larger ones first; names inside other scopes mean nothing here."""
    level = [node]
    while level:
        yield from level
        level = [
            child
            for parent in level
            if not isinstance(parent, OWN_SCOPE)
            for child in ast.iter_child_nodes(parent)
        ]


def assigned(tree: ast.Module, line: int) -> list[str]:
    """What the statement at a line assigns to."""
    names: list[str] = []
    for statement in _at_line(tree, line):
        targets: list[ast.expr] = []
        if isinstance(statement, ast.Assign):
            targets = statement.targets
        elif isinstance(statement, ast.AugAssign | ast.AnnAssign):
            targets = [statement.target]
        names += [ast.unparse(target) for target in targets]
    return names


def _at_line(tree: ast.Module, line: int) -> list[ast.stmt]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and node.lineno == line]


def _headers(tree: ast.Module, line: int) -> list[ast.AST]:
    headers: list[ast.AST] = []
    for statement in _at_line(tree, line):
        match statement:
            case ast.If() | ast.While():
                headers.append(statement.test)
            case ast.For():
                headers.append(statement.iter)
            case ast.With():
                headers += [item.context_expr for item in statement.items]
            case ast.Return() | ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr():
                if statement.value is not None:
                    headers.append(statement.value)
            case ast.Assert():
                headers.append(statement.test)
            case _:
                pass
    return headers


def _is_pure(node: ast.AST) -> bool:
    for part in ast.walk(node):
        if isinstance(part, HAS_EFFECTS):
            return False
        if isinstance(part, ast.Call) and ast.unparse(part.func) not in PURE_CALLS:
            return False
        if isinstance(part, ast.Name) and hasattr(builtins, part.id) and part is node:
            return False
    return True


def _is_callee(node: ast.AST, header: ast.AST) -> bool:
    return any(isinstance(part, ast.Call) and part.func is node for part in ast.walk(header))
