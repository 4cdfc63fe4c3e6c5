"""Mistakes in conditions: the wrong comparison, one too many `not`, a part that was forgotten."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from collect.mutations.base import Replacement
from collect.mutations.surroundings import Surroundings

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
    """`a` for `a and b`, and a comprehension that lost its `if`."""

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
    """The expression as an operand, in parentheses where it would else be torn apart."""
    if isinstance(expression, cst.BooleanOperation | cst.IfExp) and not expression.lpar:
        return expression.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return expression


def with_parentheses_of(whole: cst.BaseExpression, part: cst.BaseExpression) -> cst.BaseExpression:
    """A part in place of the whole, keeping the whole's parentheses: a line may end in them."""
    if not whole.lpar:
        return part
    return part.with_changes(lpar=[*whole.lpar, *part.lpar], rpar=[*part.rpar, *whole.rpar])
