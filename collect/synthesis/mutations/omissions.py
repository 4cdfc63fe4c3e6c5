"""Mistakes whose result reads like correct code: something is left out, or comes in another order
or later."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from collect.synthesis.mutations.base import (
    Replacements,
    Surroundings,
    calls,
    dotted,
    kind,
    mentions,
    only,
    targets,
    without,
)

_MAKERS = ("__init__", "__new__", "__setstate__", "__post_init__")
MIN_ENTRIES = 3
"""A table has so many entries or more."""


@kind("state")
def dropped_update(node: cst.SimpleStatementLine, around: Surroundings) -> Replacements:
    """State that is not kept up to date, or a value that is not normalised: `self.x = f(y)`,
    `table[key] = value`, `self.notify()`, `key = fold(key)` left out."""
    function = around.scope.function
    if function is None or len(around.siblings) < 2:
        return
    match only(node):
        case cst.Assign([cst.AssignTarget(cst.Attribute())]):
            # Without it, a new object has no such attribute, and fails at once.
            updates = function.name.value not in _MAKERS
        case cst.Assign([cst.AssignTarget(cst.Name(name))], value):
            updates = name in around.names and mentions(value, name)
        case cst.Assign([cst.AssignTarget(cst.Subscript())]) | cst.Expr(cst.Call()):
            updates = True
        case _:
            updates = False
    if updates:
        yield cst.RemoveFromParent()


@kind("inheritance")
def dropped_override(
    node: cst.FunctionDef | cst.SimpleStatementLine, around: Surroundings
) -> Replacements:
    """A method or class attribute that is inherited instead. It likely has a base's version: its
    name is Python's own, it calls `super()`, or another class of the module defines it, too."""
    if isinstance(node, cst.FunctionDef):
        name = node.name.value
    else:
        name = dotted(next(targets(only(node)), node))
    block = around.place.parent
    owner = block.parent.node if block is not None and block.parent is not None else None
    if not isinstance(owner, cst.ClassDef) or len(around.siblings) < 2 or name in _MAKERS:
        return
    special = bool(re.fullmatch(r"__\w+__", name)) or mentions(node, "super")
    if name and (special or (owner.bases and _defined_elsewhere(name, owner, around))):
        yield cst.RemoveFromParent()


@kind("absence")
def dropped_entry(
    node: cst.Dict | cst.List | cst.Set | cst.Tuple, around: Surroundings
) -> Replacements:
    """A table of a module or class without one of its entries."""
    if around.scope.function is None and len(node.elements) >= MIN_ENTRIES:
        for index in range(len(node.elements)):
            yield node.with_changes(elements=without(node.elements, index))


_ALTERNATIVE = r"(?:\\.|[^|()\[\]\\'\"])+"
_BEFORE = r"(?<=[(|:'\"])(?!\?)"
_FIRST_OF_TWO = re.compile(rf"{_BEFORE}({_ALTERNATIVE})\|(?=({_ALTERNATIVE})[|)'\"])")


@kind("absence")
def dropped_alternative(node: cst.SimpleString, around: Surroundings) -> Replacements:
    """A regular expression without one of its alternatives."""
    for found in _alternatives(node, around):
        yield _replaced(node, found.start(), found.end(), "")
        yield _replaced(node, found.end() - 1, found.end(2), "")


@kind("order")
def swapped_alternatives(node: cst.SimpleString, around: Surroundings) -> Replacements:
    """Two neighbouring alternatives of a regular expression swapped: the first that fits wins."""
    for found in _alternatives(node, around):
        yield _replaced(node, found.start(), found.end(2), f"{found[2]}|{found[1]}")


@kind("iteration")
def lazy_result(node: cst.Call | cst.ListComp, around: Surroundings) -> Replacements:
    """An iterator, which can be read only once, kept or returned for a list."""
    match around.parents:
        case [cst.Return(), *_] | [cst.Assign([cst.AssignTarget(cst.Attribute())]), *_]:
            pass
        case _:
            return
    match node:
        case cst.ListComp(elt, for_in):
            left = cst.LeftParen(node.lbracket.whitespace_after)
            right = cst.RightParen(node.rbracket.whitespace_before)
            yield cst.GeneratorExp(elt, for_in, [left], [right])
        case cst.Call(cst.Name("list" | "tuple"), [arg]):
            if isinstance(arg.value, cst.GeneratorExp):
                left = cst.LeftParen(node.whitespace_before_args)
                right = cst.RightParen(arg.whitespace_after_arg)
                yield cst.GeneratorExp(arg.value.elt, arg.value.for_in, [left], [right])
            elif calls(arg.value, "map", "filter", "zip", "reversed", "enumerate", "iter"):
                yield arg.value


def _defined_elsewhere(name: str, owner: cst.ClassDef, around: Surroundings) -> bool:
    for place in around.places.all:
        match place.node:
            case cst.ClassDef(body=cst.IndentedBlock(body)) as other if other is not owner:
                for each in body:
                    if isinstance(each, cst.FunctionDef) and each.name.value == name:
                        return True
                    if name in map(dotted, targets(only(each))):
                        return True
    return False


def _alternatives(node: cst.SimpleString, around: Surroundings) -> Iterator[re.Match[str]]:
    """The pairs of neighbouring alternatives, if the text seems to be a regular expression."""
    call = around.nearest(cst.Call)
    compiled = isinstance(call, cst.Call) and dotted(call.func).startswith("re.")
    if "r" in node.prefix or compiled:
        yield from _FIRST_OF_TWO.finditer(node.value)


def _replaced(node: cst.SimpleString, start: int, end: int, text: str) -> cst.SimpleString:
    return node.with_changes(value=node.value[:start] + text + node.value[end:])
