"""Reads the two sides of an assertion from its source."""

from __future__ import annotations

import ast
from dataclasses import dataclass

EQUAL_METHODS = ("assertEqual", "assertListEqual", "assertDictEqual", "assertTupleEqual")


@dataclass(frozen=True)
class Sides:
    """The expressions of an assertion."""

    actual: str
    expected: str | None
    """None if it compares with nothing."""
    wanted: bool = True
    """For an assertion without a comparison: the truth value that it expects."""


def sides_at(tree: ast.Module, line: int) -> Sides | None:
    """What the assertion at a line compares, or None if there is none or it is unclear."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.stmt) or not node.lineno <= line <= (node.end_lineno or 0):
            continue
        if isinstance(node, ast.Assert):
            return _of_test(node.test)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
            if name not in EQUAL_METHODS or len(call.args) < 2:
                return None
            return Sides(ast.unparse(call.args[0]), ast.unparse(call.args[1]))
    return None


def _of_test(test: ast.expr) -> Sides | None:
    if isinstance(test, ast.Compare):
        if len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq | ast.Is):
            return None
        left, right = test.left, test.comparators[0]
        if is_literal(left) and not is_literal(right):
            left, right = right, left
        return Sides(ast.unparse(left), ast.unparse(right))
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return Sides(ast.unparse(test.operand), None, wanted=False)
    return None if isinstance(test, ast.BoolOp) else Sides(ast.unparse(test), None)


def is_literal(node: ast.expr | str) -> bool:
    """Whether an expression, parsed or as text, is a literal."""
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return True
