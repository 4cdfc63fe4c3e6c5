"""Mistakes in values: boundaries, starting values, keys, indices, and the wrong variable."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from collect.mutations.base import Replacement
from collect.mutations.reading import calls, is_read
from collect.mutations.surroundings import Surroundings

MAX_VARIABLES = 3
"""Other variables tried in one place, the latest bound first."""


class OffByOne:
    """One too many or too few in a range, a slice, an index or a comparison."""

    name = "off_by_one"
    category = "boundary"
    nodes = (cst.BinaryOperation, cst.Integer, cst.Call)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.BinaryOperation):
            yield from _without_one(node)
        elif isinstance(node, cst.Integer) and _is_boundary(around):
            yield from _neighbours(node)
        elif isinstance(node, cst.Call) and calls(node, "range") and node.args:
            yield from _shorter_range(node)


class WrongStart:
    """A wrong starting value or default: `total = 1` for `total = 0`, `True` for `False`."""

    name = "wrong_start"
    category = "data"
    nodes = (cst.Integer, cst.Name, cst.Call)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(around.parent, cst.Assign | cst.AnnAssign | cst.Param):
            return
        if isinstance(node, cst.Integer):
            yield from _neighbours(node)
        elif isinstance(node, cst.Name) and node.value in ("True", "False"):
            yield node.with_changes(value=str(node.value == "False"))
        elif isinstance(node, cst.Call) and calls(node, "float"):
            yield cst.Integer("0")


class WrongKey:
    """Another key of the same program, or the other end of a sequence."""

    name = "wrong_key"
    category = "data"
    nodes = (cst.SimpleString, cst.Index)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.SimpleString) and node.value in around.keys:
            at = around.keys.index(node.value)
            others = [key for key in around.keys[at + 1 :] + around.keys[:at] if key != node.value]
            yield from (node.with_changes(value=key) for key in others[:1])
        elif isinstance(node, cst.Index) and isinstance(node.value, cst.Integer):
            if node.value.value == "0":
                yield node.with_changes(value=cst.parse_expression("-1"))
            elif node.value.value == "1":
                yield node.with_changes(value=cst.Integer("0"))
        elif isinstance(node, cst.Index) and isinstance(node.value, cst.UnaryOperation):
            yield node.with_changes(value=cst.Integer("0"))


class WrongVariable:
    """Another variable of the same function, bound before."""

    name = "wrong_variable"
    category = "data"
    nodes = (cst.Name,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Name) or not is_read(node, around.parent):
            return
        if node.value in around.names:
            others = [name for name in reversed(around.names) if name != node.value]
            for name in others[:MAX_VARIABLES]:
                yield node.with_changes(value=name)


def _without_one(node: cst.BinaryOperation) -> Iterator[cst.CSTNode]:
    """`n` for `n + 1` and `n - 1`."""
    is_one = isinstance(node.right, cst.Integer) and node.right.value == "1"
    if is_one and isinstance(node.operator, cst.Add | cst.Subtract) and not node.lpar:
        yield node.left


def _neighbours(node: cst.Integer) -> Iterator[cst.CSTNode]:
    if node.value.isdecimal():
        yield node.with_changes(value=str(int(node.value) + 1))
        if int(node.value) > 0:
            yield node.with_changes(value=str(int(node.value) - 1))


def _shorter_range(node: cst.Call) -> Iterator[cst.CSTNode]:
    """`range(n - 1)` for `range(n)`, and `range(1, n)`."""
    if len(node.args) > 2 or any(arg.star or arg.keyword for arg in node.args):
        return
    stop = node.args[-1]
    if isinstance(stop.value, cst.Name | cst.Call):
        fewer = cst.BinaryOperation(stop.value, cst.Subtract(), cst.Integer("1"))
        yield node.with_changes(args=[*node.args[:-1], stop.with_changes(value=fewer)])
    if len(node.args) == 1:
        yield node.with_changes(args=[cst.Arg(cst.Integer("1")), stop])


def _is_boundary(around: Surroundings) -> bool:
    for parent in around.parents:
        if isinstance(parent, cst.Call):
            return calls(parent, "range") or calls(parent, "round")
        if isinstance(parent, cst.Slice | cst.Index | cst.ComparisonTarget):
            return True
        if not isinstance(parent, cst.BinaryOperation | cst.UnaryOperation | cst.Arg):
            return False
    return False
