"""Mistakes in conditions and arithmetic: the wrong operator, an extra `not`, a missing part."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import libcst as cst

from collect.synthesis.mutations.base import Replacement, Replacements, kind
from collect.synthesis.mutations.reading import (
    Surroundings,
    called_name,
    calls,
    dotted,
    is_none,
    only,
    without,
)

_COMPARISONS: dict[type[cst.BaseCompOp], tuple[type[cst.BaseCompOp], ...]] = {
    cst.LessThan: (cst.LessThanEqual, cst.GreaterThan),
    cst.LessThanEqual: (cst.LessThan, cst.GreaterThanEqual),
    cst.GreaterThan: (cst.GreaterThanEqual, cst.LessThan),
    cst.GreaterThanEqual: (cst.GreaterThan, cst.LessThanEqual),
    cst.Equal: (cst.NotEqual,),
    cst.NotEqual: (cst.Equal,),
    cst.In: (cst.NotIn,),
    cst.NotIn: (cst.In,),
    cst.Is: (cst.IsNot,),
    cst.IsNot: (cst.Is,),
}
_ORDERED = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual)


@kind("condition")
def wrong_comparison(node: cst.ComparisonTarget, around: Surroundings) -> Replacements:
    """`<` for `<=`, `==` for `!=`, `in` for `not in` ..."""
    for other in _COMPARISONS.get(type(node.operator), ()):
        yield node.with_changes(operator=other())


@kind("boundary")
def wrong_boundary(node: cst.ComparisonTarget, around: Surroundings) -> Replacements:
    """`<` for `<=`, `>` for `>=`, and the other way round."""
    if isinstance(node.operator, _ORDERED):
        yield node.with_changes(operator=_COMPARISONS[type(node.operator)][0]())


@kind("condition")
def inverted_test(node: cst.ComparisonTarget, around: Surroundings) -> Replacements:
    """`==` for `!=`, `in` for `not in`, `is` for `is not`, and the other way round."""
    if not isinstance(node.operator, _ORDERED):
        yield node.with_changes(operator=_COMPARISONS[type(node.operator)][0]())


@kind("condition")
def wrong_boolean_operator(node: cst.And | cst.Or, around: Surroundings) -> Replacements:
    """`and` for `or`, and the other way round."""
    other = cst.Or if isinstance(node, cst.And) else cst.And
    yield other(node.whitespace_before, node.whitespace_after)


@kind("condition")
def negated_condition(node: cst.If | cst.IfExp | cst.CompIf, around: Surroundings) -> Replacements:
    """`if x` for `if not x`, and the other way round."""
    match node.test:
        case cst.UnaryOperation(cst.Not(), expression):
            yield node.with_changes(test=expression)
        case test if not isinstance(test, cst.Comparison):
            yield node.with_changes(test=_negated(test))


@kind("condition")
def dropped_condition(
    node: cst.BooleanOperation | cst.CompFor, around: Surroundings
) -> Replacements:
    """`a` for `a and b`, and a comprehension without its `if`."""
    if isinstance(node, cst.BooleanOperation):
        yield _in_place_of(node, node.left)
        if isinstance(node.right, cst.Comparison):
            yield _in_place_of(node, node.right)
    elif node.ifs:
        yield node.with_changes(ifs=node.ifs[:-1])


def _negated(expression: cst.BaseExpression) -> cst.UnaryOperation:
    return cst.UnaryOperation(cst.Not(), _operand(expression))


def _operand(expression: cst.BaseExpression) -> cst.BaseExpression:
    """The expression, in parentheses if it needs them as an operand."""
    if isinstance(expression, cst.BooleanOperation | cst.IfExp) and not expression.lpar:
        return expression.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return expression


def _in_place_of(whole: cst.BaseExpression, part: cst.BaseExpression) -> cst.BaseExpression:
    """A part with the whole's parentheses, which a line break may need."""
    if not whole.lpar:
        return part
    return part.with_changes(lpar=[*whole.lpar, *part.lpar], rpar=[*part.rpar, *whole.rpar])


# Mistakes with absent values and cases: `None` confused with empty, a missing case.


@kind("absence")
def empty_taken_for_none(node: cst.Comparison, around: Surroundings) -> Replacements:
    """`not x` for `x is None`, and `x` for `x is not None`, where only the truth value matters."""
    parent = around.parent
    if isinstance(parent, cst.If | cst.IfExp | cst.While | cst.CompIf):
        if parent.test is not node:
            return
    elif not isinstance(parent, cst.UnaryOperation | cst.BooleanOperation):
        return
    if _about_none(node, cst.Is):
        yield _in_place_of(node, _negated(node.left))
    elif _about_none(node, cst.IsNot):
        yield _in_place_of(node, node.left)


@kind("absence")
def or_for_none(node: cst.IfExp | cst.If, around: Surroundings) -> Replacements:
    """`x or fallback` instead of `fallback` if `x is None`."""
    test = node.test
    if not isinstance(test, cst.Comparison):
        return
    absent, present = _about_none(test, cst.Is), _about_none(test, cst.IsNot)
    match node:
        case cst.IfExp(body=value, orelse=fallback) if absent or present:
            if absent:
                value, fallback = fallback, value
            if value.deep_equals(test.left):
                yield _in_place_of(node, cst.BooleanOperation(value, cst.Or(), _operand(fallback)))
        case cst.If(
            body=cst.IndentedBlock(
                [
                    cst.SimpleStatementLine(
                        [cst.Assign([cst.AssignTarget(target), *_], fallback) as assign]
                    ) as line
                ]
            ),
            orelse=None,
        ) if absent and target.deep_equals(test.left):
            either = cst.BooleanOperation(test.left, cst.Or(), _operand(fallback))
            changed = assign.with_changes(value=either)
            yield line.with_changes(leading_lines=node.leading_lines, body=[changed])


@kind("boundary")
def cut_comparison(node: cst.Comparison, around: Surroundings) -> Replacements:
    """`a <= x` for `a <= x < b`."""
    if len(node.comparisons) == 2:
        yield node.with_changes(comparisons=node.comparisons[:1])
        middle = node.comparisons[0].comparator
        yield node.with_changes(left=middle, comparisons=node.comparisons[1:])


@kind("absence")
def missing_case(node: cst.Tuple | cst.Set | cst.List, around: Surroundings) -> Replacements:
    """One alternative fewer in `isinstance(x, (A, B))`, `x in (a, b)` and `x.startswith((a,
    b))`."""
    if len(node.elements) < 2 or not _lists_cases(around):
        return
    for index in (len(node.elements) - 1, 0):
        left = without(node.elements, index)
        if isinstance(around.parent, cst.Arg) and len(left) == 1:
            yield left[0].value
            continue
        if isinstance(node, cst.Tuple) and len(left) == 1:
            left = [left[0].with_changes(comma=cst.Comma())]
        yield node.with_changes(elements=left)


@kind("absence")
def unguarded_statement(node: cst.If | cst.Expr, around: Surroundings) -> Replacements:
    """A statement that should only run if something is missing, but always runs."""
    match node:
        case cst.If(
            cst.Comparison(comparisons=[cst.ComparisonTarget(cst.NotIn()), *_]),
            cst.BaseSuite(body=[inner]),
            None,
        ) if isinstance(only(inner), cst.Assign):
            yield inner.with_changes(leading_lines=node.leading_lines)
        case cst.Expr(
            cst.Call(cst.Attribute(mapping, cst.Name("setdefault")), [cst.Arg(key), cst.Arg(value)])
        ):
            element = cst.SubscriptElement(cst.Index(key))
            yield cst.Assign([cst.AssignTarget(cst.Subscript(mapping, [element]))], value)


def _about_none(node: cst.Comparison, operator: type[cst.BaseCompOp]) -> bool:
    first = node.comparisons[0]
    about = len(node.comparisons) == 1 and isinstance(first.operator, operator)
    return about and is_none(first.comparator)


def _lists_cases(around: Surroundings) -> bool:
    match around.parents:
        case [cst.ComparisonTarget(cst.In() | cst.NotIn()), *_]:
            return True
        case [cst.Arg(), cst.Call(cst.Name("isinstance" | "issubclass")), *_]:
            return True
        case [cst.Arg(), cst.Call(cst.Attribute(attr=cst.Name("startswith" | "endswith"))), *_]:
            return True
    return False


# Mistakes in arithmetic and assignments.

_Operators = Mapping[type[cst.CSTNode], Callable[..., cst.CSTNode]]
_ARITHMETIC: _Operators = {
    cst.Add: cst.Subtract,
    cst.Subtract: cst.Add,
    cst.Multiply: cst.Add,
    cst.Modulo: cst.FloorDivide,
    cst.Power: cst.Multiply,
    cst.LeftShift: cst.RightShift,
    cst.RightShift: cst.LeftShift,
    cst.BitAnd: cst.BitOr,
    cst.BitOr: cst.BitAnd,
    cst.AddAssign: cst.SubtractAssign,
    cst.SubtractAssign: cst.AddAssign,
    cst.MultiplyAssign: cst.AddAssign,
}
_DIVISION: _Operators = {
    cst.Divide: cst.FloorDivide,
    cst.FloorDivide: cst.Divide,
    cst.DivideAssign: cst.FloorDivideAssign,
    cst.FloorDivideAssign: cst.DivideAssign,
}


@kind("arithmetic")
def wrong_arithmetic_operator(
    node: cst.BaseBinaryOp | cst.BaseAugOp, around: Surroundings
) -> Replacements:
    """`-` for `+`, `//` for `%` ..."""
    # Strings can be concatenated, but have no other such operator.
    texts = cst.SimpleString | cst.FormattedString | cst.List
    whole = around.parent
    concatenates = isinstance(whole, cst.BinaryOperation) and (
        isinstance(whole.left, texts) or isinstance(whole.right, texts)
    )
    if not concatenates:
        yield from _other_operator(node, _ARITHMETIC)


@kind("arithmetic")
def wrong_division(node: cst.BaseBinaryOp | cst.BaseAugOp, around: Surroundings) -> Replacements:
    """`/` for `//`, and the other way round."""
    yield from _other_operator(node, _DIVISION)


def _other_operator(node: Any, others: _Operators) -> Replacements:
    if other := others.get(type(node)):
        before, after = node.whitespace_before, node.whitespace_after
        yield other(whitespace_before=before, whitespace_after=after)


@kind("data")
def lost_update(node: cst.AugAssign, around: Surroundings) -> Replacements:
    """`x = y` for `x += y`."""
    yield cst.Assign([cst.AssignTarget(node.target)], node.value)


# What a kind of mistake must also meet in a real project, to be likely there.

_ORDER_IS_KNOWN = ("isinstance", "issubclass", "map", "filter", "getattr", "hasattr", "setattr")
_COUNTS = re.compile(
    r"(?:^|_)(?:[ijkmnxyzt]|id?x|pos|position|start|stop|end|offset|count|size|width|height|depth|len"
    r"|length|total|sum|level|index|step|delta|cost|weight|year|month|day|hour|min|minute|second|"
    r"score|value|rank|degree|distance|dist|low|high|lo|hi|left|right|num|number)s?\d?$"
)


def no_minus_zero(node: cst.CSTNode, replacement: Replacement, around: Surroundings) -> bool:
    """Nobody writes `rows[:-0]`."""
    negated = isinstance(around.parent, cst.UnaryOperation)
    return not (negated and isinstance(replacement, cst.Integer) and replacement.value == "0")


def arguments_alike(node: cst.Call, replacement: cst.Call, around: Surroundings) -> bool:
    """Whether a reader could confuse the two: both are variables, or both literals, for example."""
    pairs = zip(node.args, replacement.args, strict=True)
    swapped = [old.value for old, new in pairs if old is not new]
    owner = any(isinstance(each, cst.Name) and each.value in ("self", "cls") for each in swapped)
    return len(set(map(type, swapped))) == 1 and not owner and not calls(node, *_ORDER_IS_KNOWN)


def of_numbers(node: cst.CSTNode, replacement: Replacement, around: Surroundings) -> bool:
    """Whether a sum seems to be numeric: "+" also concatenates lists and strings."""
    if not isinstance(node, cst.Add):
        return True
    whole = around.parent
    if not isinstance(whole, cst.BinaryOperation):
        return False
    return _is_number(whole.left) or _is_number(whole.right)


def no_other_type(node: cst.Call, replacement: Replacement, around: Surroundings) -> bool:
    """Keys and values mostly differ in type, so swapping them fails at once."""
    return called_name(node) not in ("keys", "values")


def _is_number(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return not isinstance(node.operator, cst.Add | cst.Modulo)
    if isinstance(node, cst.Call):
        return calls(node, "len", "int", "sum", "abs", "round", "max", "min", "float", "ord")
    return isinstance(node, cst.BaseNumber) or bool(_COUNTS.search(dotted(node)))
