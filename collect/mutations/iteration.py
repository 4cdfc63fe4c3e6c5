"""Mistakes in loops: a start inside, an iterator used up, an end missed, an order turned round."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from collect.mutations.base import Replacement
from collect.mutations.places import Place
from collect.mutations.reading import (
    calls,
    is_empty,
    lines_above,
    mentions,
    only,
    targets,
)
from collect.mutations.surroundings import Surroundings

_CONSUMERS = ("sum", "min", "max", "any", "all", "sorted", "list", "tuple", "set", "dict", "zip")


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
                longer = loop.with_changes(body=inner, leading_lines=lines_above(start))
                yield node.with_changes(body=[*node.body[:index], longer, *node.body[index + 2 :]])


class UsedUpIterator:
    """An iterator, which gives its items once, for a list that is read twice."""

    name = "used_up_iterator"
    category = "iteration"
    nodes = (cst.Call, cst.ListComp)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        target = next(targets(around.parent), None)
        if around.scope.function is None or not isinstance(target, cst.Name):
            return
        if not _iterated_twice(target.value, around):
            return
        if isinstance(node, cst.ListComp):
            before, after = node.lbracket.whitespace_after, node.rbracket.whitespace_before
            yield _generator(node, before, after)
        elif isinstance(node, cst.Call) and calls(node, "list", "tuple") and len(node.args) == 1:
            made = node.args[0].value
            if isinstance(made, cst.GeneratorExp):
                after = node.args[0].whitespace_after_arg
                yield _generator(made, node.whitespace_before_args, after)
            elif calls(made, "map", "filter", "zip", "reversed", "enumerate", "iter"):
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


def _generator(
    made: cst.ListComp | cst.GeneratorExp,
    before: cst.BaseParenthesizableWhitespace,
    after: cst.BaseParenthesizableWhitespace,
) -> cst.GeneratorExp:
    """What a comprehension makes, one by one; laid out as before."""
    left, right = cst.LeftParen(before), cst.RightParen(after)
    return cst.GeneratorExp(made.elt, made.for_in, [left], [right])


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
    if isinstance(loop, cst.While) and mentions(loop.test, target.value):
        return False
    return mentions(loop.body, target.value)


def _iterated_twice(name: str, around: Surroundings) -> bool:
    """Whether the function goes through a variable's items more than once, and reads it nowhere
    else: it would ask for a length or an item."""
    reads = 0
    for place in around.places.inside(around.scope.place):
        parent = place.parent.node if place.parent else place.node
        named = isinstance(place.node, cst.Name) and place.node.value == name
        if not named or isinstance(parent, cst.AssignTarget):
            continue
        goes_through = isinstance(parent, cst.For | cst.CompFor | cst.StarredElement)
        passed = isinstance(parent, cst.Arg) and _takes_iterators(place)
        if not goes_through and not passed:
            return False
        reads += 1
    return reads > 1


def _takes_iterators(argument: Place) -> bool:
    call = argument.parent.parent if argument.parent else None
    return call is not None and calls(call.node, *_CONSUMERS)
