"""Mistakes in what lasts: caches that go stale, resets forgotten, objects shared for copies."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from collect.mutations.base import Replacement
from collect.mutations.reading import (
    called_name,
    calls,
    dotted,
    is_empty,
    is_none,
    only,
    self_attribute,
    without,
)
from collect.mutations.surroundings import Surroundings

_CLEARING = re.compile(r"(?:clear|cache_clear|invalidate\w*|_?reset\w*|_?clear\w*|expire|discard)$")
_KEYED = re.compile(r"cache|memo|seen|visited", re.IGNORECASE)
_MAKERS = ("__init__", "__new__", "__setstate__", "__post_init__")
_CONVERSIONS = ("list", "dict", "set")


class StaleCache:
    """What should have been thrown away is kept."""

    name = "stale_cache"
    category = "state"
    nodes = (cst.SimpleStatementLine,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if around.scope.function is None or len(around.siblings) < 2:
            return
        small = only(node)
        if isinstance(small, cst.Del):
            if isinstance(small.target, cst.Subscript | cst.Attribute):
                yield cst.RemoveFromParent()
        elif isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            called = small.value.func
            if isinstance(called, cst.Attribute) and _CLEARING.match(called.attr.value):
                yield cst.RemoveFromParent()


class DroppedReset:
    """A variable or attribute that keeps its old value where it starts anew."""

    name = "dropped_reset"
    category = "state"
    nodes = (cst.SimpleStatementLine,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        assign = only(node)
        function = around.scope.function
        if function is None or len(around.siblings) < 2 or not isinstance(assign, cst.Assign):
            return
        if not _is_start(assign.value):
            return
        target = assign.targets[0].target
        if self_attribute(target):
            if function.name.value not in _MAKERS:
                yield cst.RemoveFromParent()
        elif isinstance(target, cst.Name) and target.value in around.names and _in_loop(around):
            yield cst.RemoveFromParent()


class ForgetfulKey:
    """A cache's key that lost one of its parts."""

    name = "forgetful_key"
    category = "state"
    nodes = (cst.Tuple, cst.Subscript)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.Subscript):
            if len(node.slice) > 1 and _KEYED.search(dotted(node.value)):
                for index in range(len(node.slice) - 1, -1, -1):
                    yield node.with_changes(slice=without(node.slice, index))
        elif isinstance(node, cst.Tuple) and len(node.elements) > 1 and _is_key(around):
            if any(isinstance(element, cst.StarredElement) for element in node.elements):
                return
            for index in range(len(node.elements) - 1, -1, -1):
                left = without(node.elements, index)
                yield left[0].value if len(left) == 1 else node.with_changes(elements=left)


class SharedObject:
    """The object itself for a copy of it: `x` for `x[:]`, `dict(x)`, `copy.copy(x)`, `[*x]`."""

    name = "shared_object"
    category = "state"
    nodes = (cst.Call, cst.Subscript, cst.List, cst.Dict)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        copied = _copied(node)
        read = not isinstance(around.parent, cst.AssignTarget | cst.Del | cst.Attribute | cst.Expr)
        if copied is not None and read:
            yield copied


class ShallowCopy:
    """A copy whose parts are shared, for a deep one."""

    name = "shallow_copy"
    category = "state"
    nodes = (cst.Call,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if isinstance(node, cst.Call) and dotted(node.func) == "copy.deepcopy":
            assert isinstance(node.func, cst.Attribute)
            func = node.func.with_changes(attr=cst.Name("copy"))
            yield node.with_changes(func=func, args=node.args[:1])


def _is_start(value: cst.BaseExpression) -> bool:
    if isinstance(value, cst.Name):
        return value.value in ("True", "False") or is_none(value)
    return isinstance(value, cst.Integer) or is_empty(value)


def _in_loop(around: Surroundings) -> bool:
    for parent in around.parents:
        if isinstance(parent, cst.For | cst.While):
            return True
        if isinstance(parent, cst.FunctionDef):
            return False
    return False


def _is_key(around: Surroundings) -> bool:
    parent = around.parent
    if isinstance(parent, cst.Assign):
        return dotted(parent.targets[0].target).endswith("key")
    if isinstance(parent, cst.Index):
        subscript = around.parents[2]
        return isinstance(subscript, cst.Subscript) and bool(_KEYED.search(dotted(subscript.value)))
    return False


def _copied(node: cst.CSTNode) -> cst.BaseExpression | None:
    """What the expression copies."""
    if isinstance(node, cst.Call):
        return _copied_by_call(node)
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        part = node.slice[0].slice
        whole = isinstance(part, cst.Slice) and not (part.lower or part.upper or part.step)
        return node.value if whole else None
    if isinstance(node, cst.List) and len(node.elements) == 1:
        element = node.elements[0]
        return element.value if isinstance(element, cst.StarredElement) else None
    if isinstance(node, cst.Dict) and len(node.elements) == 1:
        starred = node.elements[0]
        return starred.value if isinstance(starred, cst.StarredDictElement) else None
    return None


def _copied_by_call(node: cst.Call) -> cst.BaseExpression | None:
    if not node.args:
        method = isinstance(node.func, cst.Attribute) and called_name(node) == "copy"
        return node.func.value if method and isinstance(node.func, cst.Attribute) else None
    first = node.args[0].value
    if dotted(node.func) in ("copy.copy", "copy.deepcopy", "deepcopy"):
        return first
    plain = len(node.args) == 1 and not node.args[0].star and not node.args[0].keyword
    if plain and calls(node, *_CONVERSIONS) and isinstance(first, cst.Name | cst.Attribute):
        return first
    return None
