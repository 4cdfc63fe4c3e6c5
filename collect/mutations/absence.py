"""Mistakes about what is absent or left out: `None` taken for empty, a case forgotten."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from collect.mutations.base import Replacement
from collect.mutations.conditions import parenthesized, with_parentheses_of
from collect.mutations.reading import calls, is_none, only, targets, without
from collect.mutations.surroundings import Surroundings


class EmptyTakenForNone:
    """`not x` for `x is None`, and `x` for `x is not None`."""

    name = "empty_taken_for_none"
    category = "absence"
    nodes = (cst.Comparison,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Comparison) or not _is_condition(node, around.parent):
            return
        if _about_none(node, cst.Is):
            negated = cst.UnaryOperation(cst.Not(), parenthesized(node.left))
            yield with_parentheses_of(node, negated)
        elif _about_none(node, cst.IsNot):
            yield with_parentheses_of(node, node.left)


class OrForNone:
    """`x or fallback` for `fallback` where `x is None`."""

    name = "or_for_none"
    category = "absence"
    nodes = (cst.IfExp, cst.If)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.IfExp) and isinstance(node.test, cst.Comparison):
            value, fallback = node.body, node.orelse
            if _about_none(node.test, cst.Is):
                value, fallback = fallback, value
            elif not _about_none(node.test, cst.IsNot):
                return
            if value.deep_equals(node.test.left):
                either = cst.BooleanOperation(value, cst.Or(), parenthesized(fallback))
                yield with_parentheses_of(node, either)
        elif isinstance(node, cst.If) and node.orelse is None:
            yield from _assigned_or(node)


class CutComparison:
    """`a <= x` for `a <= x < b`."""

    name = "cut_comparison"
    category = "boundary"
    nodes = (cst.Comparison,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 2:
            yield node.with_changes(comparisons=node.comparisons[:1])
            middle = node.comparisons[0].comparator
            yield node.with_changes(left=middle, comparisons=node.comparisons[1:])


class MissingCase:
    """One fewer in `isinstance(x, (A, B))`, `x in (a, b)` and `x.startswith((a, b))`."""

    name = "missing_case"
    category = "absence"
    nodes = (cst.Tuple, cst.Set, cst.List)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Tuple | cst.Set | cst.List) or len(node.elements) < 2:
            return
        if not _lists_cases(around):
            return
        for index in (len(node.elements) - 1, 0):
            left = without(node.elements, index)
            if isinstance(around.parent, cst.Arg) and len(left) == 1:
                yield left[0].value
                continue
            if isinstance(node, cst.Tuple) and len(left) == 1:
                left = [left[0].with_changes(comma=cst.Comma())]
            yield node.with_changes(elements=left)


class UnguardedStatement:
    """What was to be done only if something was missing, done always."""

    name = "unguarded_statement"
    category = "absence"
    nodes = (cst.If, cst.Expr)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.If) and node.orelse is None:
            test, inner = node.test, node.body.body
            absent = isinstance(test, cst.Comparison) and isinstance(
                test.comparisons[0].operator, cst.NotIn
            )
            if absent and len(inner) == 1 and isinstance(only(inner[0]), cst.Assign):
                yield inner[0].with_changes(leading_lines=node.leading_lines)
        elif isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
            yield from _overwriting(node.value)


def _about_none(node: cst.Comparison, operator: type[cst.BaseCompOp]) -> bool:
    first = node.comparisons[0]
    about = len(node.comparisons) == 1 and isinstance(first.operator, operator)
    return about and is_none(first.comparator)


def _is_condition(node: cst.Comparison, parent: cst.CSTNode) -> bool:
    """Whether only the truth of its value matters."""
    if isinstance(parent, cst.If | cst.IfExp | cst.While | cst.CompIf):
        return parent.test is node
    return isinstance(parent, cst.UnaryOperation | cst.BooleanOperation)


def _assigned_or(node: cst.If) -> Iterator[Replacement]:
    """`x = x or fallback` for `if x is None: x = fallback`."""
    inner = node.body.body
    assign = only(inner[0]) if len(inner) == 1 else None
    target = next(targets(assign), None)
    if not isinstance(assign, cst.Assign) or not isinstance(node.test, cst.Comparison):
        return
    if target is not None and _about_none(node.test, cst.Is) and target.deep_equals(node.test.left):
        either = cst.BooleanOperation(node.test.left, cst.Or(), parenthesized(assign.value))
        line = inner[0].with_changes(leading_lines=node.leading_lines)
        if isinstance(line, cst.SimpleStatementLine):
            yield line.with_changes(body=[assign.with_changes(value=either)])


def _lists_cases(around: Surroundings) -> bool:
    parent = around.parent
    if isinstance(parent, cst.ComparisonTarget):
        return isinstance(parent.operator, cst.In | cst.NotIn)
    if isinstance(parent, cst.Arg):
        call = around.parents[1]
        if calls(call, "isinstance", "issubclass"):
            return True
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
            return call.func.attr.value in ("startswith", "endswith")
    return False


def _overwriting(call: cst.Call) -> Iterator[Replacement]:
    """`d[key] = value` for `d.setdefault(key, value)`."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "setdefault":
        return
    if len(call.args) == 2:
        index = cst.SubscriptElement(cst.Index(call.args[0].value))
        target = cst.AssignTarget(cst.Subscript(call.func.value, [index]))
        yield cst.Assign([target], call.args[1].value)
