"""Mistakes of names: a variable, attribute or key for one that is easily taken for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

import libcst as cst

from collect.mutations.base import Replacement
from collect.mutations.reading import is_read, self_attribute
from collect.mutations.surroundings import Surroundings

MAX_NAMES = 2
"""Other names tried in one place, the most alike first."""
_OPPOSITES = (
    {"start", "end"},
    {"start", "stop"},
    {"left", "right"},
    {"first", "last"},
    {"low", "high"},
    {"lo", "hi"},
    {"min", "max"},
    {"minimum", "maximum"},
    {"lower", "upper"},
    {"old", "new"},
    {"width", "height"},
    {"row", "column"},
    {"row", "col"},
    {"rows", "cols"},
    {"source", "target"},
    {"src", "dst"},
    {"head", "tail"},
    {"key", "value"},
    {"keys", "values"},
    {"prev", "next"},
    {"previous", "current"},
    {"parent", "child"},
    {"prefix", "suffix"},
    {"before", "after"},
    {"succ", "pred"},
    {"open", "close"},
    {"hits", "misses"},
    {"begin", "end"},
    {"input", "output"},
    {"true", "false"},
    {"year", "month"},
    {"month", "day"},
    {"hour", "minute"},
    {"minute", "second"},
)


class ConfusedVariable:
    """A variable whose name is like the right one's."""

    name = "confused_variable"
    category = "name"
    nodes = (cst.Name,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.Name) or not is_read(node, around.parent):
            return
        if node.value in around.names:
            for name in alike(node.value, around.names):
                yield node.with_changes(value=name)


class ConfusedAttribute:
    """Another attribute of the same object, like the right one."""

    name = "confused_attribute"
    category = "name"
    nodes = (cst.Attribute,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        name = self_attribute(node)
        if not isinstance(node, cst.Attribute) or name not in around.scope.attributes:
            return
        written = isinstance(around.parent, cst.AssignTarget | cst.AugAssign | cst.Attribute)
        called = isinstance(around.parent, cst.Call) and around.parent.func is node
        if written or called:
            return
        for other in alike(name, around.scope.attributes):
            yield node.with_changes(attr=cst.Name(other))


class ConfusedKey:
    """Another key of the same mapping."""

    name = "confused_key"
    category = "name"
    nodes = (cst.SimpleString,)

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        if not isinstance(node, cst.SimpleString) or not isinstance(around.parent, cst.Index):
            return
        subscript = around.parents[2]
        if isinstance(subscript, cst.Subscript) and not _is_target(around.parents[3]):
            others = dict.fromkeys(_keys_of(subscript.value, around))
            near = [key for key in others if key != node.value]
            near.sort(key=lambda key: -_likeness(key, node.value))
            yield from (node.with_changes(value=key) for key in near[:MAX_NAMES])


def alike(name: str, others: Iterable[str]) -> list[str]:
    """The names that are easily taken for the name, the most alike first."""
    scored = [(_likeness(name, other), other) for other in others if other != name]
    scored = [(score, other) for score, other in scored if score >= 0.6]
    scored.sort(key=lambda pair: -pair[0])
    return [other for _, other in scored[:MAX_NAMES]]


def _likeness(one: str, other: str) -> float:
    """0 to 1."""
    words, other_words = _words(one), _words(other)
    if len(words) == len(other_words):
        differing = [{a, b} for a, b in zip(words, other_words, strict=True) if a != b]
        if len(differing) == 1 and differing[0] in _OPPOSITES:
            return 1.0
        if len(differing) == 1 and len(words) > 1:
            return 0.9
    if len(one) <= 2 and len(other) <= 2:
        # Short names beside each other: i and j, x and y, a and b, x1 and x2.
        return 0.9 if abs(ord(one[0]) - ord(other[0])) <= 1 or one[0] == other[0] else 0.0
    if one + "s" == other or other + "s" == one:
        return 0.8
    return SequenceMatcher(None, one, other).ratio()


def _words(name: str) -> list[str]:
    return [word for word in name.lower().split("_") if word]


def _is_target(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.AssignTarget | cst.Del)


def _keys_of(mapping: cst.BaseExpression, around: Surroundings) -> Iterator[str]:
    """The string keys that the function, or else the class, uses with the mapping."""
    for subscript in (*around.in_scope(cst.Subscript), *around.in_owner(cst.Subscript)):
        if subscript.value.deep_equals(mapping) and len(subscript.slice) == 1:
            index = subscript.slice[0].slice
            if isinstance(index, cst.Index) and isinstance(index.value, cst.SimpleString):
                yield index.value.value
