"""Mutations that confuse names of the same type, and leave out parts of calls."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from tree_sitter import Node

from collect.code.java_tree import called_name, text_of, words
from collect.synthesis.java_mutations.base import (
    Edit,
    Edits,
    Variables,
    arguments_of,
    field_text,
    fields,
    is_in,
    kind,
    replaced,
    swapped,
)

MAX_OTHERS = 2
"""Maximum number of variables tried in place of one."""
_PAIRS = (
    "startsWith endsWith|indexOf lastIndexOf|containsKey containsValue|min max|isBefore isAfter"
    "|plusDays minusDays|plusMonths minusMonths|plusHours minusHours|plusMinutes minusMinutes"
    "|addFirst addLast|getFirst getLast|peekFirst peekLast|pollFirst pollLast|offerFirst offerLast"
    "|removeFirst removeLast|firstKey lastKey|first last|floorKey ceilingKey"
    "|floorEntry ceilingEntry"
    "|lowerKey floorKey|higherKey ceilingKey|headMap tailMap|headSet tailSet|anyMatch allMatch"
    "|toLowerCase toUpperCase|add subtract|multiply divide|plus minus|equals equalsIgnoreCase"
    "|put putIfAbsent|addAll retainAll|containsAll removeAll|getKey getValue|keySet values"
    "|isEmpty isPresent|isDigit isLetter|isUpperCase isLowerCase|append insert|poll peek"
)
_CHAINED = words(
    "reversed trim strip toLowerCase toUpperCase sorted distinct filter negate abs normalize "
    "stripTrailingZeros limit skip thenComparing thenComparingInt setScale minusDays plusDays "
    "withDayOfMonth intern"
)
_VALUES = words(
    "argument_list binary_expression return_statement array_access assignment_expression"
)
_FLAGS = words("argument_list variable_declarator return_statement assignment_expression")


def _others() -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in _PAIRS.split("|"):
        one, other = pair.split()
        found.setdefault(one, []).append(other)
        found.setdefault(other, []).append(one)
    return found


_OTHERS = _others()


@kind("name", "identifier")
def wrong_variable(node: Node, variables: Variables) -> Edits:
    """Another nearby variable of the same type."""
    parent = node.parent
    if parent is None or parent.type not in _VALUES:
        return
    if parent.type == "assignment_expression" and node == parent.child_by_field_name("left"):
        return
    name = text_of(node)
    local, own = variables.at(node), variables.fields(node)
    its_type = local.get(name) or own.get(name)
    if its_type is None:
        return
    near = local if name in local else {key: own[key] for key in own if key not in local}
    used = {name, *map(text_of, parent.named_children)}
    others = [other for other in near if near[other] == its_type and other not in used]
    yield from (replaced(node, other) for other in others[:MAX_OTHERS])


@kind("call", "argument_list")
def swapped_arguments(node: Node, variables: Variables) -> Edits:
    for one, other in pairwise(node.named_children):
        if text_of(one) != text_of(other) and _alike(one, other, variables):
            yield swapped(one, other)


def _alike(one: Node, other: Node, variables: Variables) -> bool:
    """Whether both have the same type, as far as known."""
    if one.type != other.type:
        return False
    if one.type in ("identifier", "field_access"):
        return variables.type_of(one) == variables.type_of(other) != ""
    if one.type == "method_invocation":
        static = text_of(one)[:1].isupper() or text_of(other)[:1].isupper()
        same_receiver = field_text(one, "object") == field_text(other, "object")
        return called_name(one) == called_name(other) and (not static or same_receiver)
    return one.type.endswith("integer_literal")


@kind("call", "method_invocation")
def wrong_method(node: Node, variables: Variables) -> Edits:
    match fields(node, "object", "name"):
        case [_, name]:
            yield from (replaced(name, other) for other in _OTHERS.get(text_of(name), ()))


@kind("call", "method_invocation")
def dropped_step(node: Node, variables: Variables) -> Edits:
    """One call of a chain is missing."""
    for receiver in fields(node, "object"):
        of_class = text_of(receiver).split(".")[-1][:1].isupper()
        if not of_class and called_name(node) in _CHAINED:
            yield Edit(receiver.end_byte, node.end_byte)


@kind("default", "method_invocation")
def missing_default(node: Node, variables: Variables) -> Edits:
    """A missing key is not handled."""
    match fields(node, "name"), arguments_of(node):
        case [name], [key, default] if text_of(name) == "getOrDefault":
            yield Edit(name.start_byte, node.end_byte, f"get({text_of(key)})")
            if text_of(default) in ("0", "1", "0L"):
                yield replaced(default, "0" if text_of(default) == "1" else "1")


@kind("default", "true false")
def wrong_flag(node: Node, variables: Variables) -> Edits:
    """`true` for `false` as an argument, initial value or result."""
    if is_in(node, _FLAGS):
        yield replaced(node, "false" if node.type == "true" else "true")
