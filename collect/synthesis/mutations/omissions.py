"""Mistakes whose result reads like correct code: something is left out, comes in another order or
later, or two things with like names are confused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import libcst as cst

from collect.synthesis.mutations.base import (
    Replacements,
    Surroundings,
    alike,
    called_name,
    dotted,
    kind,
    lazy,
    mentions,
    only,
    self_attribute,
    spliced,
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


@kind("order")
def swapped_entries(node: cst.List | cst.Tuple, around: Surroundings) -> Replacements:
    """Two neighbouring entries of a table swapped: the first that fits wins."""
    if around.scope.function is None and len(node.elements) >= MIN_ENTRIES:
        for index, (first, second) in enumerate(pairwise(node.elements)):
            left = second.with_changes(comma=first.comma)
            right = first.with_changes(comma=second.comma)
            yield node.with_changes(elements=spliced(node.elements, index, 2, left, right))


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


@kind("order")
def reordered_statements(node: cst.IndentedBlock, around: Surroundings) -> Replacements:
    """Two neighbouring statements swapped that do not name what the other one assigns, but may have
    effects on each other."""
    if around.scope.function is None:
        return
    for index, (first, second) in enumerate(pairwise(node.body)):
        parts = only(first), only(second)
        acting = [part for part in parts if _calls_something(part)]
        names = [{dotted(target) for target in targets(part)} - {""} for part in parts]
        used = mentions(second, *names[0]) or mentions(first, *names[1])
        if None not in parts and acting and not used and _is_movable(*parts):
            yield node.with_changes(body=spliced(node.body, index, 2, second, first))


@kind("iteration")
def lazy_result(node: cst.Call | cst.ListComp, around: Surroundings) -> Replacements:
    """An iterator, which can be read only once, kept or returned for a list."""
    match around.parents:
        case [cst.Return(), *_]:
            yield from lazy(node)
        case [cst.Assign([cst.AssignTarget(cst.Attribute())]), *_]:
            yield from lazy(node)


@kind("name")
def confused_method(node: cst.Call, around: Surroundings) -> Replacements:
    """Another method of the same object, with a like name and as many parameters."""
    name, owner = self_attribute(node.func), around.scope.owner
    if owner is None or not name or not isinstance(owner.body, cst.IndentedBlock):
        return
    methods = {
        each.name.value: len(each.params.params)
        for each in owner.body.body
        if isinstance(each, cst.FunctionDef)
    }
    fitting = [each for each in methods if methods[each] == methods.get(name)]
    for other in alike(name, fitting):
        func = cst.ensure_type(node.func, cst.Attribute)
        yield node.with_changes(func=func.with_changes(attr=cst.Name(other)))


@kind("name")
def confused_member(node: cst.Attribute, around: Surroundings) -> Replacements:
    """Another attribute of the same object, with a like name, that the function uses, too."""
    owner = node.value
    if not isinstance(owner, cst.Name) or owner.value in ("self", "cls"):
        return
    if isinstance(around.parent, cst.AssignTarget | cst.AugAssign | cst.Attribute):
        return
    used = [
        each.attr.value
        for each in around.in_scope(cst.Attribute)
        if isinstance(each.value, cst.Name) and each.value.value == owner.value
    ]
    for other in alike(node.attr.value, dict.fromkeys(used)):
        yield node.with_changes(attr=cst.Name(other))


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


def _calls_something(part: cst.CSTNode | None) -> bool:
    match part:
        case cst.Expr(cst.Call(func)) | cst.Assign(value=cst.Call(func)):
            return isinstance(func, cst.Attribute) and called_name(cst.Call(func)) != "format"
    return False


def _is_movable(*parts: cst.CSTNode | None) -> bool:
    """Whether they are calls and assignments, of which a reader expects no order."""
    return all(isinstance(part, cst.Expr | cst.Assign | cst.AugAssign) for part in parts)
