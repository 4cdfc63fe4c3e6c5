"""Mistakes in loops: a start inside, an iterator used up, an end missed, an order turned round."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from collect.mutations.base import Replacement
from collect.mutations.reading import called_name, calls, is_empty, only, targets
from collect.mutations.surroundings import Surroundings


class ResetInLoop:
    """What is gathered over a loop, started anew in each turn of it."""

    name = "reset_in_loop"
    category = "iteration"
    nodes = (cst.IndentedBlock,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.IndentedBlock):
            return
        for index, (start, loop) in enumerate(zip(node.body, node.body[1:], strict=False)):
            if not isinstance(loop, cst.For | cst.While) or not _gathers(start, loop):
                continue
            block = loop.body
            if isinstance(block, cst.IndentedBlock):
                first = start.with_changes(leading_lines=[])
                inner = block.with_changes(body=[first, *block.body])
                longer = loop.with_changes(body=inner, leading_lines=start_lines(start))
                yield node.with_changes(body=[*node.body[:index], longer, *node.body[index + 2 :]])


class UsedUpIterator:
    """An iterator, which gives its items once, for a list that is read twice."""

    name = "used_up_iterator"
    category = "iteration"
    nodes = (cst.Call, cst.ListComp)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        target = next(targets(around.parent), None)
        if not isinstance(target, cst.Name) or not _iterated_twice(target.value, around):
            return
        if isinstance(node, cst.ListComp):
            yield cst.GeneratorExp(node.elt, node.for_in)
        elif isinstance(node, cst.Call) and calls(node, "list", "tuple") and len(node.args) == 1:
            made = node.args[0].value
            lazy = calls(made, "map", "filter", "zip", "reversed", "enumerate", "iter")
            if isinstance(made, cst.GeneratorExp):
                yield cst.GeneratorExp(made.elt, made.for_in)
            elif lazy:
                yield made


class WrongSliceEnd:
    """One too many or too few at the end of a slice, or of what is counted by `len`."""

    name = "wrong_slice_end"
    category = "boundary"
    nodes = (cst.Slice,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Slice) or node.step is not None:
            return
        for side in ("upper", "lower"):
            bound = node.upper if side == "upper" else node.lower
            if isinstance(bound, cst.Name | cst.Attribute | cst.Call):
                one = cst.BinaryOperation(bound, cst.Subtract(), cst.Integer("1"))
                more = cst.BinaryOperation(bound, cst.Add(), cst.Integer("1"))
                yield node.with_changes(**{side: one if side == "upper" else more})


class NestedYield:
    """`yield x` for `yield from x`."""

    name = "nested_yield"
    category = "iteration"
    nodes = (cst.Yield,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.Yield) and isinstance(node.value, cst.From):
            yield node.with_changes(value=node.value.item)


class SwappedStatements:
    """Two neighbouring statements the wrong way round, where one reads what the other writes."""

    name = "swapped_statements"
    category = "order"
    nodes = (cst.IndentedBlock,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.IndentedBlock) or around.scope.function is None:
            return
        for index, (first, second) in enumerate(zip(node.body, node.body[1:], strict=False)):
            if _depends(first, second, around):
                second_first = [
                    second.with_changes(leading_lines=start_lines(first)),
                    first.with_changes(leading_lines=start_lines(second)),
                ]
                yield node.with_changes(
                    body=[*node.body[:index], *second_first, *node.body[index + 2 :]]
                )


class SwappedBranches:
    """The special case after the general one, which hides it."""

    name = "swapped_branches"
    category = "order"
    nodes = (cst.If,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.If) or not isinstance(node.orelse, cst.If):
            return
        other = node.orelse
        if _subject(node.test) and _subject(node.test) == _subject(other.test):
            yield node.with_changes(
                test=other.test,
                body=other.body,
                orelse=other.with_changes(test=node.test, body=node.body),
            )


def start_lines(statement: cst.CSTNode) -> list[cst.EmptyLine]:
    """The comments and empty lines above a statement."""
    return list(getattr(statement, "leading_lines", ()))


def _gathers(start: cst.CSTNode, loop: cst.For | cst.While) -> bool:
    """Whether the loop adds to what the statement before it starts."""
    assign = only(start)
    if not isinstance(assign, cst.Assign) or len(assign.targets) != 1:
        return False
    target = assign.targets[0].target
    if not isinstance(target, cst.Name):
        return False
    if not (is_empty(assign.value) or isinstance(assign.value, cst.Integer | cst.Float)):
        return False
    if isinstance(loop, cst.While) and _mentions(loop.test, target.value):
        return False
    return _mentions(loop.body, target.value)


def _mentions(node: cst.CSTNode, name: str) -> bool:
    if isinstance(node, cst.Name):
        return node.value == name
    return any(_mentions(child, name) for child in node.children)


def _iterated_twice(name: str, around: Surroundings) -> bool:
    """Whether the function reads a variable at least twice, and never asks for a length or item."""
    reads = 0
    for node in around.in_scope(cst.Name):
        reads += node.value == name
    for subscript in around.in_scope(cst.Subscript):
        if isinstance(subscript.value, cst.Name) and subscript.value.value == name:
            return False
    for call in around.in_scope(cst.Call):
        if calls(call, "len") and _mentions(call, name):
            return False
        if isinstance(call.func, cst.Attribute) and _mentions(call.func.value, name):
            return False
    return reads > 2


def _depends(first: cst.CSTNode, second: cst.CSTNode, around: Surroundings) -> bool:
    """Whether the second reads what the first writes anew, so that it can read the old instead."""
    writes, reads = only(first), only(second)
    if not isinstance(writes, cst.Assign | cst.AugAssign):
        return False
    if not isinstance(reads, cst.Assign | cst.AugAssign | cst.Expr):
        return False
    if isinstance(reads, cst.Expr) and not isinstance(reads.value, cst.Call):
        return False
    function = around.scope.function
    made = function is not None and function.name.value == "__init__"
    for target in targets(writes):
        if isinstance(target, cst.Name):
            known = isinstance(writes, cst.AugAssign) or target.value in around.names
            if known and _reads(reads, target):
                return True
        elif isinstance(target, cst.Attribute) and not made and _reads(reads, target):
            return True
    return False


def _reads(statement: cst.BaseSmallStatement, target: cst.BaseExpression) -> bool:
    value = statement.value if isinstance(statement, cst.Assign | cst.AugAssign) else statement
    return _contains(value, target)


def _contains(node: cst.CSTNode, wanted: cst.CSTNode) -> bool:
    if type(node) is type(wanted) and node.deep_equals(wanted):
        return True
    return any(_contains(child, wanted) for child in node.children)


def _subject(test: cst.BaseExpression) -> str:
    """What a test is about, where another test about the same may hold as well; else empty."""
    if calls(test, "isinstance", "issubclass") and isinstance(test, cst.Call):
        return f"isinstance {_text(test.args[0].value)}" if test.args else ""
    if isinstance(test, cst.Call) and called_name(test) in ("startswith", "endswith"):
        return _text(test.func)
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        ordered = cst.LessThan | cst.LessThanEqual | cst.GreaterThan | cst.GreaterThanEqual
        if isinstance(test.comparisons[0].operator, ordered):
            return f"compared {_text(test.left)}"
    return ""


def _text(node: cst.BaseExpression) -> str:
    return cst.Module([]).code_for_node(node)
