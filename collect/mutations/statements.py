"""Mistakes in the flow: a branch or a statement forgotten, a return or an end too early."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from collect.mutations.base import Replacement
from collect.mutations.reading import only
from collect.mutations.surroundings import Surroundings

_UPDATING = {"add", "append", "sort", "update", "extend", "discard", "remove", "pop", "reverse"}


class DroppedBranch:
    """An `else` or `elif` that was forgotten."""

    name = "dropped_branch"
    category = "flow"
    nodes = (cst.If,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.If) and isinstance(node.orelse, cst.Else):
            yield node.with_changes(orelse=None)
        elif isinstance(node, cst.If) and isinstance(node.orelse, cst.If):
            yield node.with_changes(orelse=node.orelse.orelse)


class DroppedGuard:
    """A whole `if` without `else` that was forgotten."""

    name = "dropped_guard"
    category = "flow"
    nodes = (cst.If,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.If) and node.orelse is None and len(around.siblings) > 1:
            yield cst.RemoveFromParent()


class DroppedStatement:
    """An update that was forgotten: `seen.add(x)`, `rows.sort()`, `count += 1`."""

    name = "dropped_statement"
    category = "flow"
    nodes = (cst.SimpleStatementLine,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if _is_update(node) and len(around.siblings) > 1:
            yield cst.RemoveFromParent()


class EarlyReturn:
    """The return after a loop, made in the loop."""

    name = "early_return"
    category = "flow"
    nodes = (cst.For,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        after = around.next_sibling()
        if not isinstance(node, cst.For) or not isinstance(node.body, cst.IndentedBlock):
            return
        if after is not None and isinstance(only(after), cst.Return):
            inner = [*node.body.body, after.with_changes(leading_lines=[])]
            yield node.with_changes(body=node.body.with_changes(body=inner))


class WrongLoopControl:
    """`break` for `continue`, or the other way round; after other statements it is forgotten."""

    name = "wrong_loop_control"
    category = "flow"
    nodes = (cst.SimpleStatementLine,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.SimpleStatementLine):
            return
        small = only(node)
        if isinstance(small, cst.Continue):
            yield node.with_changes(body=[cst.Break()])
        elif isinstance(small, cst.Break) and _ends_for(around):
            alone = len(around.siblings) == 1
            yield node.with_changes(body=[cst.Continue()]) if alone else cst.RemoveFromParent()


def _ends_for(around: Surroundings) -> bool:
    """Whether the loop that a `break` ends also ends without it."""
    loops = (parent for parent in around.parents if isinstance(parent, cst.For | cst.While))
    return isinstance(next(loops, None), cst.For)


def _is_update(statement: cst.CSTNode) -> bool:
    small = only(statement)
    if isinstance(small, cst.AugAssign):
        return True
    if not isinstance(small, cst.Expr) or not isinstance(small.value, cst.Call):
        return False
    called = small.value.func
    return isinstance(called, cst.Attribute) and called.attr.value in _UPDATING
