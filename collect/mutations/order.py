"""Mistakes in the order of things: statements, branches and mappings the wrong way round."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from collect.mutations.base import Replacement
from collect.mutations.reading import called_name, calls, lines_above, only, targets
from collect.mutations.surroundings import Surroundings


class SwappedStatements:
    """Two neighbouring statements the wrong way round, where one reads what the other writes."""

    name = "swapped_statements"
    category = "order"
    nodes = (cst.IndentedBlock,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.IndentedBlock) or around.scope.function is None:
            return
        known = _parameters(around)
        for index, (first, second) in enumerate(zip(node.body, node.body[1:], strict=False)):
            if _depends(first, second, known, around):
                second_first = [
                    second.with_changes(leading_lines=lines_above(first)),
                    first.with_changes(leading_lines=lines_above(second)),
                ]
                yield node.with_changes(
                    body=[*node.body[:index], *second_first, *node.body[index + 2 :]]
                )
            known |= {name.value for name in targets(only(first)) if isinstance(name, cst.Name)}


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


class SwappedMerge:
    """Two mappings merged the wrong way round: the other one's values win."""

    name = "swapped_merge"
    category = "order"
    nodes = (cst.Dict,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Dict):
            return
        for index, (first, second) in enumerate(
            zip(node.elements, node.elements[1:], strict=False)
        ):
            if isinstance(first, cst.StarredDictElement) or isinstance(
                second, cst.StarredDictElement
            ):
                elements = list(node.elements)
                elements[index] = second.with_changes(comma=first.comma)
                elements[index + 1] = first.with_changes(comma=second.comma)
                yield node.with_changes(elements=elements)


def _parameters(around: Surroundings) -> set[str]:
    function = around.scope.function
    return set() if function is None else {param.name.value for param in function.params.params}


def _depends(
    first: cst.CSTNode, second: cst.CSTNode, known: set[str], around: Surroundings
) -> bool:
    """Whether the second reads what the first writes anew, so that it can read the old instead.

    `known` are the variables that surely have an old value.
    """
    writes, reads = only(first), only(second)
    if not isinstance(writes, cst.Assign | cst.AugAssign):
        return False
    if not isinstance(reads, cst.Assign | cst.AugAssign | cst.Expr):
        return False
    if isinstance(reads, cst.Expr) and not _passes_on(reads.value):
        return False
    function = around.scope.function
    made = function is not None and function.name.value == "__init__"
    for target in targets(writes):
        if isinstance(target, cst.Name):
            old = isinstance(writes, cst.AugAssign) or target.value in known
            if old and _reads(reads, target):
                return True
        elif isinstance(target, cst.Attribute) and not made and _reads(reads, target):
            return True
    return False


def _passes_on(value: cst.BaseExpression) -> bool:
    """Whether it is a call that may take what was written: not a method of it, which has no old
    value to be called on."""
    return isinstance(value, cst.Call) and bool(value.args)


def _reads(statement: cst.BaseSmallStatement, target: cst.BaseExpression) -> bool:
    if isinstance(statement, cst.Assign | cst.AugAssign):
        return _contains(statement.value, target)
    if isinstance(statement, cst.Expr) and isinstance(statement.value, cst.Call):
        return any(_contains(arg, target) for arg in statement.value.args)
    return False


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
