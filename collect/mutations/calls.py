"""Mistakes in calls: arguments the wrong way round, a call forgotten, the wrong function."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from collect.mutations.base import Replacement
from collect.mutations.surroundings import Surroundings

_CLEANING = {"strip", "lstrip", "rstrip", "lower", "upper", "copy", "title", "casefold"}
_WRAPPING = {"sorted", "abs", "round", "reversed", "list", "tuple", "int", "str", "float"}
_OPPOSITES = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "popleft": "pop",
    "appendleft": "append",
    "keys": "values",
    "values": "keys",
    "lower": "upper",
    "upper": "lower",
    "startswith": "endswith",
    "endswith": "startswith",
    "bisect_left": "bisect_right",
    "bisect_right": "bisect_left",
    "find": "rfind",
    "extend": "append",
    "ceil": "floor",
    "floor": "ceil",
    "lstrip": "rstrip",
    "rstrip": "lstrip",
}


class SwappedArguments:
    """Two neighbouring arguments the wrong way round."""

    name = "swapped_arguments"
    category = "call"
    nodes = (cst.Call,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Call):
            return
        for index, (first, second) in enumerate(zip(node.args, node.args[1:], strict=False)):
            named = first.keyword or second.keyword or first.star or second.star
            if named or first.value.deep_equals(second.value):
                continue
            args = list(node.args)
            args[index] = first.with_changes(value=second.value)
            args[index + 1] = second.with_changes(value=first.value)
            yield node.with_changes(args=args)


class DroppedCall:
    """`x` for `x.strip()` or `sorted(x)`."""

    name = "dropped_call"
    category = "call"
    nodes = (cst.Call,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Call) or isinstance(around.parent, cst.Expr):
            return
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in _CLEANING:
            yield node.func.value
        elif isinstance(node.func, cst.Name) and node.func.value in _WRAPPING:
            plain = node.args and not node.args[0].star
            if plain and not isinstance(node.args[0].value, cst.GeneratorExp):
                yield node.args[0].value


class MissingDeduplication:
    """`list(x)` for `set(x)`."""

    name = "missing_deduplication"
    category = "data"
    nodes = (cst.Call, cst.SetComp)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.args:
            if node.func.value == "set":
                yield node.with_changes(func=cst.Name("list"))
        elif isinstance(node, cst.SetComp):
            yield cst.ListComp(
                node.elt,
                node.for_in,
                lbracket=cst.LeftSquareBracket(node.lbrace.whitespace_after),
                rbracket=cst.RightSquareBracket(node.rbrace.whitespace_before),
                lpar=node.lpar,
                rpar=node.rpar,
            )


class WrongFunction:
    """A function's opposite: `max` for `min`, `endswith` for `startswith`."""

    name = "wrong_function"
    category = "call"
    nodes = (cst.Call,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Call):
            return
        if isinstance(node.func, cst.Name) and node.func.value in _OPPOSITES:
            yield node.with_changes(func=cst.Name(_OPPOSITES[node.func.value]))
        elif isinstance(node.func, cst.Attribute) and node.func.attr.value in _OPPOSITES:
            other = cst.Name(_OPPOSITES[node.func.attr.value])
            yield node.with_changes(func=node.func.with_changes(attr=other))
