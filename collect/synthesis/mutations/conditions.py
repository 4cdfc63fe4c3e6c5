"""Mistakes in conditions: the wrong comparison, an extra `not`, a missing part."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import libcst as cst

from collect.synthesis.mutations.base import MutationKind, Replacement
from collect.synthesis.mutations.reading import (
    Surroundings,
    called_name,
    calls,
    dotted,
    is_none,
    only,
    targets,
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


class WrongComparison:
    """`<` for `<=`, `==` for `!=`, `in` for `not in` ..."""

    name = "wrong_comparison"
    category = "condition"
    nodes = (cst.ComparisonTarget,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.ComparisonTarget):
            return
        for other in _COMPARISONS.get(type(node.operator), ()):
            yield node.with_changes(operator=other())


class WrongBoundary:
    """`<` for `<=`, `>` for `>=`, and the other way round."""

    name = "wrong_boundary"
    category = "boundary"
    nodes = (cst.ComparisonTarget,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.ComparisonTarget) and isinstance(node.operator, _ORDERED):
            yield node.with_changes(operator=_COMPARISONS[type(node.operator)][0]())


class InvertedTest:
    """`==` for `!=`, `in` for `not in`, `is` for `is not`, and the other way round."""

    name = "inverted_test"
    category = "condition"
    nodes = (cst.ComparisonTarget,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.ComparisonTarget) and not isinstance(node.operator, _ORDERED):
            yield node.with_changes(operator=_COMPARISONS[type(node.operator)][0]())


class WrongBooleanOperator:
    """`and` for `or`, and the other way round."""

    name = "wrong_boolean_operator"
    category = "condition"
    nodes = (cst.And, cst.Or)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.And):
            yield cst.Or(node.whitespace_before, node.whitespace_after)
        elif isinstance(node, cst.Or):
            yield cst.And(node.whitespace_before, node.whitespace_after)


class NegatedCondition:
    """`if x` for `if not x`, and the other way round."""

    name = "negated_condition"
    category = "condition"
    nodes = (cst.If, cst.IfExp, cst.CompIf)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.If | cst.IfExp | cst.CompIf):
            return
        test = node.test
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            yield node.with_changes(test=test.expression)
        elif not isinstance(test, cst.Comparison):
            yield node.with_changes(test=cst.UnaryOperation(cst.Not(), parenthesized(test)))


class DroppedCondition:
    """`a` for `a and b`, and a comprehension without its `if`."""

    name = "dropped_condition"
    category = "condition"
    nodes = (cst.BooleanOperation, cst.CompFor)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.BooleanOperation) and not isinstance(node.right, cst.Comparison):
            yield with_parentheses_of(node, node.left)
        elif isinstance(node, cst.BooleanOperation):
            yield with_parentheses_of(node, node.left)
            yield with_parentheses_of(node, node.right)
        elif isinstance(node, cst.CompFor) and node.ifs:
            yield node.with_changes(ifs=node.ifs[:-1])


def parenthesized(expression: cst.BaseExpression) -> cst.BaseExpression:
    """The expression as an operand, in parentheses if it needs them."""
    if isinstance(expression, cst.BooleanOperation | cst.IfExp) and not expression.lpar:
        return expression.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return expression


def with_parentheses_of(whole: cst.BaseExpression, part: cst.BaseExpression) -> cst.BaseExpression:
    """A part in place of the whole, with the whole's parentheses, which a line break may need."""
    if not whole.lpar:
        return part
    return part.with_changes(lpar=[*whole.lpar, *part.lpar], rpar=[*part.rpar, *whole.rpar])


# Mistakes with absent values and cases: `None` confused with empty, a missing case.


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
    """`x or fallback` instead of `fallback` if `x is None`."""

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
    """One alternative fewer in `isinstance(x, (A, B))`, `x in (a, b)` and `x.startswith((a,
    b))`."""

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
    """A statement that should only run if something is missing, but always runs."""

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
    """Whether only the truth value of the comparison matters."""
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


# Kinds of mistake, limited to places where they are likely in a real project.


_ORDER_IS_KNOWN = ("isinstance", "issubclass", "map", "filter", "getattr", "hasattr", "setattr")
_OWNERS = ("self", "cls")
_COUNTS = re.compile(
    r"(?:^|_)(?:[ijkmnxyzt]|id?x|pos|position|start|stop|end|offset|count|size|width|height|depth|len"
    r"|length|total|sum|level|index|step|delta|cost|weight|year|month|day|hour|min|minute|second|"
    r"score|value|rank|degree|distance|dist|low|high|lo|hi|left|right|num|number)s?\d?$"
)


@dataclass(frozen=True)
class Narrowed:
    """The accepted replacements of another kind."""

    kind: MutationKind
    accepts: Callable[[cst.CSTNode, Replacement, Surroundings], bool]
    """Called with the node, its replacement and its surroundings."""

    @property
    def name(self) -> str:
        return self.kind.name

    @property
    def category(self) -> str:
        return self.kind.category

    @property
    def nodes(self) -> tuple[type[cst.CSTNode], ...]:
        return self.kind.nodes

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        for replacement in self.kind.replacements(node, around):
            if self.accepts(node, replacement, around):
                yield replacement


def no_minus_zero(node: cst.CSTNode, replacement: Replacement, around: Surroundings) -> bool:
    """Nobody writes `rows[:-0]`."""
    negated = isinstance(around.parent, cst.UnaryOperation)
    return not (negated and isinstance(replacement, cst.Integer) and replacement.value == "0")


def arguments_alike(node: cst.CSTNode, replacement: Replacement, around: Surroundings) -> bool:
    """Whether a reader could confuse the two: both are variables, or both literals, for example."""
    if not isinstance(node, cst.Call) or not isinstance(replacement, cst.Call):
        return False
    if calls(node, *_ORDER_IS_KNOWN):
        return False
    swapped = [
        old.value for old, new in zip(node.args, replacement.args, strict=True) if old is not new
    ]
    owner = any(isinstance(value, cst.Name) and value.value in _OWNERS for value in swapped)
    return len(set(map(type, swapped))) == 1 and not owner


def of_numbers(node: cst.CSTNode, replacement: Replacement, around: Surroundings) -> bool:
    """Whether a sum seems to be numeric: "+" also concatenates lists and strings."""
    if not isinstance(node, cst.Add):
        return True
    whole = around.parent
    if not isinstance(whole, cst.BinaryOperation):
        return False
    return _is_number(whole.left) or _is_number(whole.right)


def no_other_type(node: cst.CSTNode, replacement: Replacement, around: Surroundings) -> bool:
    """Keys and values mostly differ in type, so swapping them fails at once."""
    return not isinstance(node, cst.Call) or called_name(node) not in ("keys", "values")


def _is_number(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return not isinstance(node.operator, cst.Add | cst.Modulo)
    if isinstance(node, cst.Call):
        return calls(node, "len", "int", "sum", "abs", "round", "max", "min", "float", "ord")
    if isinstance(node, cst.Subscript):
        return False
    return isinstance(node, cst.BaseNumber) or bool(_COUNTS.search(dotted(node)))


# Mistakes in arithmetic and assignments.


_Operator = (
    cst.Add
    | cst.Subtract
    | cst.Multiply
    | cst.Divide
    | cst.FloorDivide
    | cst.Modulo
    | cst.Power
    | cst.LeftShift
    | cst.RightShift
    | cst.BitAnd
    | cst.BitOr
    | cst.AddAssign
    | cst.SubtractAssign
    | cst.MultiplyAssign
    | cst.DivideAssign
    | cst.FloorDivideAssign
)
_ARITHMETIC: Mapping[type[cst.CSTNode], type[_Operator]] = {
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
_DIVISION: Mapping[type[cst.CSTNode], type[_Operator]] = {
    cst.Divide: cst.FloorDivide,
    cst.FloorDivide: cst.Divide,
    cst.DivideAssign: cst.FloorDivideAssign,
    cst.FloorDivideAssign: cst.DivideAssign,
}


class WrongArithmeticOperator:
    """`-` for `+`, `//` for `%` ..."""

    name = "wrong_arithmetic_operator"
    category = "arithmetic"
    nodes = tuple(_ARITHMETIC)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        # Strings can be concatenated, but have no other such operator.
        texts = cst.SimpleString | cst.FormattedString | cst.List
        if isinstance(around.parent, cst.BinaryOperation) and (
            isinstance(around.parent.left, texts) or isinstance(around.parent.right, texts)
        ):
            return
        yield from _swapped(node, _ARITHMETIC)


class WrongDivision:
    """`/` for `//`, and the other way round."""

    name = "wrong_division"
    category = "arithmetic"
    nodes = tuple(_DIVISION)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        yield from _swapped(node, _DIVISION)


class LostUpdate:
    """`x = y` for `x += y`."""

    name = "lost_update"
    category = "data"
    nodes = (cst.AugAssign,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.AugAssign) and isinstance(
            node.target, cst.BaseAssignTargetExpression
        ):
            yield cst.Assign([cst.AssignTarget(node.target)], node.value)


def _swapped(
    node: cst.CSTNode, pairs: Mapping[type[cst.CSTNode], type[_Operator]]
) -> Iterator[cst.CSTNode]:
    other = pairs.get(type(node))
    if other is not None and isinstance(node, _Operator):
        yield other(
            whitespace_before=node.whitespace_before, whitespace_after=node.whitespace_after
        )
