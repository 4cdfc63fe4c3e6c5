"""Mistakes in the flow: a branch or a statement forgotten, a return or an end too early."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from collect.mutations.base import Surroundings

_UPDATING = {"add", "append", "sort", "update", "extend", "discard", "remove", "pop", "reverse"}


class DroppedBranch:
    """An `else` or `elif` that was forgotten."""

    name = "dropped_branch"
    category = "flow"

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[cst.CSTNode]:
        if isinstance(node, cst.If) and isinstance(node.orelse, cst.Else):
            yield node.with_changes(orelse=None)
        elif isinstance(node, cst.If) and isinstance(node.orelse, cst.If):
            yield node.with_changes(orelse=node.orelse.orelse)


class DroppedGuard:
    """A whole `if` without `else` that was forgotten."""

    name = "dropped_guard"
    category = "flow"

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[cst.CSTNode]:
        if not isinstance(node, cst.IndentedBlock) or len(node.body) < 2:
            return
        for index, statement in enumerate(node.body):
            if isinstance(statement, cst.If) and statement.orelse is None:
                yield node.with_changes(body=_without(node.body, index))


class DroppedStatement:
    """An update that was forgotten: `seen.add(x)`, `rows.sort()`, `count += 1`."""

    name = "dropped_statement"
    category = "flow"

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[cst.CSTNode]:
        if not isinstance(node, cst.IndentedBlock) or len(node.body) < 2:
            return
        for index, statement in enumerate(node.body):
            if _is_update(statement):
                yield node.with_changes(body=_without(node.body, index))


class EarlyReturn:
    """The return after a loop, made in the loop."""

    name = "early_return"
    category = "flow"

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[cst.CSTNode]:
        if not isinstance(node, cst.IndentedBlock):
            return
        for index, (loop, after) in enumerate(zip(node.body, node.body[1:], strict=False)):
            if (
                isinstance(loop, cst.For)
                and isinstance(loop.body, cst.IndentedBlock)
                and _returns(after)
            ):
                inner = [*loop.body.body, after.with_changes(leading_lines=[])]
                longer = loop.with_changes(body=loop.body.with_changes(body=inner))
                yield node.with_changes(body=[*node.body[:index], longer, *node.body[index + 1 :]])


class WrongLoopControl:
    """`break` for `continue`."""

    name = "wrong_loop_control"
    category = "flow"

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[cst.CSTNode]:
        if isinstance(node, cst.Continue):
            yield cst.Break()
        elif isinstance(node, cst.Break) and any(isinstance(p, cst.For) for p in around.parents):
            yield cst.Pass()


def _without(statements: Sequence[cst.BaseStatement], index: int) -> Sequence[cst.BaseStatement]:
    return [*statements[:index], *statements[index + 1 :]]


def _only(statement: cst.BaseStatement) -> cst.BaseSmallStatement | None:
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        return statement.body[0]
    return None


def _returns(statement: cst.BaseStatement) -> bool:
    return isinstance(_only(statement), cst.Return)


def _is_update(statement: cst.BaseStatement) -> bool:
    only = _only(statement)
    if isinstance(only, cst.AugAssign):
        return True
    if not isinstance(only, cst.Expr) or not isinstance(only.value, cst.Call):
        return False
    called = only.value.func
    return isinstance(called, cst.Attribute) and called.attr.value in _UPDATING
