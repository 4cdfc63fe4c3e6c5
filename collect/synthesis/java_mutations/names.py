"""Mutations that confuse things of the same type: variables, arguments, methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from tree_sitter import Node

from collect.code.java_tree import called_name, text_of, words
from collect.synthesis.java_mutations.base import Edit, JavaKind, field_of, replaced
from collect.synthesis.java_mutations.variables import Variables

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


def _others() -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in _PAIRS.split("|"):
        one, other = pair.split()
        found.setdefault(one, []).append(other)
        found.setdefault(other, []).append(one)
    return found


_OTHERS = _others()


def _wrong_variable(node: Node, variables: Variables) -> Iterator[Edit]:
    """Another nearby variable of the same type."""
    parent = node.parent
    if parent is None or parent.type not in _VALUES or _is_written(node, parent):
        return
    name = text_of(node)
    local, fields = variables.at(node), variables.fields(node)
    kind = local.get(name) or fields.get(name)
    if kind is None:
        return
    near = local if name in local else {key: fields[key] for key in fields if key not in local}
    others = [other for other, its in near.items() if its == kind and other != name]
    used = {text_of(each) for each in parent.named_children}
    yield from (
        replaced(node, other) for other in [o for o in others if o not in used][:MAX_OTHERS]
    )


def _is_written(node: Node, parent: Node) -> bool:
    return parent.type == "assignment_expression" and node == field_of(parent, "left")


def _swapped_arguments(node: Node, variables: Variables) -> Iterator[Edit]:
    given = node.named_children
    for one, other in pairwise(given):
        if text_of(one) != text_of(other) and _alike(one, other, variables):
            data = node.text or b""
            start = node.start_byte
            between = data[one.end_byte - start : other.start_byte - start].decode()
            text = text_of(other) + between + text_of(one)
            yield Edit(one.start_byte, other.end_byte, text)


def _alike(one: Node, other: Node, variables: Variables) -> bool:
    """Whether both have the same type, as far as known."""
    if one.type != other.type:
        return False
    if one.type in ("identifier", "field_access"):
        kind = variables.type_of(one)
        return kind != "" and kind == variables.type_of(other)
    if one.type == "method_invocation":
        static = [text_of(each)[:1].isupper() for each in (one, other)]
        same = called_name(one) == called_name(other)
        return same and (not any(static) or _receiver(one) == _receiver(other))
    return one.type.endswith("integer_literal")


def _receiver(call: Node) -> str:
    receiver = field_of(call, "object")
    return text_of(receiver) if receiver is not None else ""


def _wrong_method(node: Node, variables: Variables) -> Iterator[Edit]:
    name = field_of(node, "name")
    if name is not None and field_of(node, "object") is not None:
        yield from (replaced(name, other) for other in _OTHERS.get(text_of(name), ()))


def _dropped_step(node: Node, variables: Variables) -> Iterator[Edit]:
    """One call of a chain is missing."""
    receiver = field_of(node, "object")
    of_value = receiver is not None and not text_of(receiver).split(".")[-1][:1].isupper()
    if receiver is not None and of_value and called_name(node) in _CHAINED:
        yield Edit(receiver.end_byte, node.end_byte, "")


def _missing_default(node: Node, variables: Variables) -> Iterator[Edit]:
    """A missing key is not handled."""
    name, arguments = field_of(node, "name"), field_of(node, "arguments")
    if name is None or arguments is None or text_of(name) not in ("getOrDefault", "orElse"):
        return
    given = arguments.named_children
    if text_of(name) == "getOrDefault" and len(given) == 2:
        yield Edit(name.start_byte, arguments.end_byte, f"get({text_of(given[0])})")
        if text_of(given[1]) in ("0", "1", "0L"):
            yield replaced(given[1], "1" if text_of(given[1])[0] == "0" else "0")


def _wrong_flag(node: Node, variables: Variables) -> Iterator[Edit]:
    """`true` for `false` as an argument, initial value or result."""
    if node.parent is not None and node.parent.type in (
        "argument_list",
        "variable_declarator",
        "return_statement",
        "assignment_expression",
    ):
        yield replaced(node, "false" if node.type == "true" else "true")


_CALL = frozenset({"method_invocation"})
KINDS = (
    JavaKind("wrong_variable", "name", frozenset({"identifier"}), _wrong_variable),
    JavaKind("swapped_arguments", "call", frozenset({"argument_list"}), _swapped_arguments),
    JavaKind("wrong_method", "call", _CALL, _wrong_method),
    JavaKind("dropped_step", "call", _CALL, _dropped_step),
    JavaKind("missing_default", "default", _CALL, _missing_default),
    JavaKind("wrong_flag", "default", words("true false"), _wrong_flag),
)
