"""Mistakes in results: values the wrong way round, the wrong unit, one that is not handed back."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from collect.mutations.base import Replacement
from collect.mutations.reading import calls, dotted, self_attribute
from collect.mutations.surroundings import Surroundings

_FACTORS = {
    "1000": "1024",
    "1024": "1000",
    "60": "3600",
    "3600": "60",
    "24": "60",
    "365": "360",
    "1000000": "1000",
    "1000000.0": "1000.0",
    "1e6": "1e3",
    "1e3": "1e6",
    "1e9": "1e6",
    "1_000_000": "1_000",
    "86400": "3600",
    "180": "360",
    "360": "180",
    "100": "1000",
    "100.0": "1000.0",
    "255": "256",
    "256": "255",
}
_SCALING = cst.Multiply | cst.Divide | cst.FloorDivide | cst.Modulo


class SwappedResults:
    """Two of the values that a function returns, or that one is taken apart into, swapped."""

    name = "swapped_results"
    category = "data"
    nodes = (cst.Tuple,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        returned = isinstance(around.parent, cst.Return | cst.Yield)
        if not isinstance(node, cst.Tuple) or not (returned or _is_taken_apart(around)):
            return
        for index, (first, second) in enumerate(
            zip(node.elements, node.elements[1:], strict=False)
        ):
            starred = isinstance(first, cst.StarredElement) or isinstance(
                second, cst.StarredElement
            )
            alike = type(first.value) is type(second.value)
            if starred or not alike or first.value.deep_equals(second.value):
                continue
            elements = list(node.elements)
            elements[index] = first.with_changes(value=second.value)
            elements[index + 1] = second.with_changes(value=first.value)
            yield node.with_changes(elements=elements)


class DroppedRecursiveResult:
    """A recursive call whose result is not handed back."""

    name = "dropped_recursive_result"
    category = "flow"
    nodes = (cst.Return,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        function = around.scope.function
        if not isinstance(node, cst.Return) or not isinstance(node.value, cst.Call):
            return
        called = node.value.func
        name = self_attribute(called) if around.scope.owner else dotted(called)
        if function is not None and function.name.value == name:
            yield cst.Expr(node.value)


class WrongUnit:
    """Another factor: 1024 for 1000, 3600 for 60."""

    name = "wrong_unit"
    category = "unit"
    nodes = (cst.Integer, cst.Float, cst.Call)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.Call):
            func = node.func
            total = isinstance(func, cst.Attribute) and func.attr.value == "total_seconds"
            if isinstance(func, cst.Attribute) and total and not node.args:
                yield func.with_changes(attr=cst.Name("seconds"))
            return
        parent = around.parent
        if isinstance(parent, cst.BinaryOperation) and isinstance(parent.operator, _SCALING):
            other = _FACTORS.get(around.code(node))
            if other is not None:
                yield cst.parse_expression(other)


class WrongLength:
    """One fewer than the length."""

    name = "wrong_length"
    category = "boundary"
    nodes = (cst.Call,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not calls(node, "len") or not isinstance(node, cst.Call):
            return
        parent = around.parent
        fewer = cst.BinaryOperation(node, cst.Subtract(), cst.Integer("1"))
        function = around.scope.function
        if isinstance(parent, cst.Return) and function and function.name.value == "__len__":
            return
        if isinstance(parent, cst.Assign | cst.Return):
            yield fewer
        elif isinstance(parent, cst.ComparisonTarget):
            whole = around.parents[1]
            if isinstance(whole, cst.Comparison) and isinstance(whole.left, cst.Name):
                yield fewer


def _is_taken_apart(around: Surroundings) -> bool:
    """Whether it is the target of an assignment from one value, as in `a, b = f()`."""
    if not isinstance(around.parent, cst.AssignTarget):
        return False
    assign = around.parents[1]
    return isinstance(assign, cst.Assign) and isinstance(assign.value, cst.Call | cst.Name)
