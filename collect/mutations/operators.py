"""Mistakes in arithmetic and in assignments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from collect.mutations.base import Replacement
from collect.mutations.surroundings import Surroundings

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
        # Text on both sides of an operator is put together by "+", and has no other.
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
