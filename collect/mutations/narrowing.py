"""A kind of mistake, only where it is likely in a real project."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import libcst as cst

from collect.mutations.base import MutationKind, Replacement
from collect.mutations.reading import called_name, calls, dotted
from collect.mutations.surroundings import Surroundings

_ORDER_IS_KNOWN = ("isinstance", "issubclass", "map", "filter", "getattr", "hasattr", "setattr")
_OWNERS = ("self", "cls")
_COUNTS = re.compile(
    r"(?:^|_)(?:[ijkmnxyzt]|id?x|pos|position|start|stop|end|offset|count|size|width|height|depth|len"
    r"|length|total|sum|level|index|step|delta|cost|weight|year|month|day|hour|min|minute|second|"
    r"score|value|rank|degree|distance|dist|low|high|lo|hi|left|right|num|number)s?\d?$"
)


@dataclass(frozen=True)
class Narrowed:
    """What another kind gives, as far as it is accepted."""

    kind: MutationKind
    accepts: Callable[[cst.CSTNode, Replacement, Surroundings], bool]
    """Asked with the node, its replacement and its surroundings."""

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
    """Whether a reader could confuse the two: both variables, or both literals, say."""
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
    """Whether a sum seems to be one of numbers: lists and texts are put together by "+" as well."""
    if not isinstance(node, cst.Add):
        return True
    whole = around.parent
    if not isinstance(whole, cst.BinaryOperation):
        return False
    return _is_number(whole.left) or _is_number(whole.right)


def no_other_type(node: cst.CSTNode, replacement: Replacement, around: Surroundings) -> bool:
    """Keys for values are mostly of another type, and fail at once."""
    return not isinstance(node, cst.Call) or called_name(node) not in ("keys", "values")


def _is_number(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.BinaryOperation):
        return not isinstance(node.operator, cst.Add | cst.Modulo)
    if isinstance(node, cst.Call):
        return calls(node, "len", "int", "sum", "abs", "round", "max", "min", "float", "ord")
    if isinstance(node, cst.Subscript):
        return False
    return isinstance(node, cst.BaseNumber) or bool(_COUNTS.search(dotted(node)))
