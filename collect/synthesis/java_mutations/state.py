"""Mutations that leave objects out of date, share them, or confuse names of the same type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from tree_sitter import Node

from collect.code.java_tree import called_name, text_of, words
from collect.synthesis.java_mutations.base import Edit, JavaKind, field_of, removed, replaced
from collect.synthesis.java_mutations.variables import IMMUTABLE, Variables, method_of

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
NAMES_KINDS = (
    JavaKind("wrong_variable", "name", frozenset({"identifier"}), _wrong_variable),
    JavaKind("swapped_arguments", "call", frozenset({"argument_list"}), _swapped_arguments),
    JavaKind("wrong_method", "call", _CALL, _wrong_method),
    JavaKind("dropped_step", "call", _CALL, _dropped_step),
    JavaKind("missing_default", "default", _CALL, _missing_default),
    JavaKind("wrong_flag", "default", words("true false"), _wrong_flag),
)


_RESETS = words("null true false 0 -1 0L 1")
_FORGETTING = words("clear remove removeIf reset invalidate removeFirst removeLast pop poll evict")
_COPIES = words("copyOf unmodifiableList unmodifiableSet unmodifiableMap unmodifiableCollection")
_BLOCKS = words("block constructor_body switch_block_statement_group")


def _assigned(statement: Node) -> tuple[Node | None, Node | None]:
    """The target and the new value of an assignment, if they are explicit."""
    expression = statement.named_children[0]
    if expression.type == "assignment_expression":
        return field_of(expression, "left"), field_of(expression, "right")
    if expression.type == "update_expression":
        return expression.named_children[0], None
    return None, None


def _is_removable(statement: Node) -> bool:
    return statement.parent is not None and statement.parent.type in _BLOCKS


def _in_constructor(node: Node) -> bool:
    around = method_of(node)
    return around is not None and around.type != "method_declaration"


def _is_reset(statement: Node, variables: Variables) -> bool:
    target, value = _assigned(statement)
    if target is not None and value is not None:
        return variables.is_field(target) and text_of(value) in _RESETS
    return called_name(statement.named_children[0]) in _FORGETTING


def _stale_state(node: Node, variables: Variables) -> Iterator[Edit]:
    """A computed or recorded value is not reset."""
    if _is_removable(node) and _is_reset(node, variables) and not _in_constructor(node):
        yield removed(node)


def _lost_update(node: Node, variables: Variables) -> Iterator[Edit]:
    """An assignment is missing that later code reads."""
    target, _ = _assigned(node)
    if target is None or not _is_removable(node) or _is_reset(node, variables):
        return
    if not variables.is_final(target):
        yield removed(node)


def _dropped_call(node: Node, variables: Variables) -> Iterator[Edit]:
    """A call is missing whose result is unused, so it is made for its effect."""
    called = node.named_children[0]
    if called.type != "method_invocation" or called_name(called) in _FORGETTING:
        return
    if _is_removable(node):
        yield removed(node)


def _ignored_result(node: Node, variables: Variables) -> Iterator[Edit]:
    """The result of a method of an immutable value is dropped."""
    target, value = _assigned(node)
    if target is None or value is None or value.type != "method_invocation":
        return
    receiver = field_of(value, "object")
    same = receiver is not None and text_of(receiver) == text_of(target)
    if same and variables.type_of(target) in IMMUTABLE:
        yield replaced(node, f"{text_of(value)};")


def _self_assignment(node: Node, variables: Variables) -> Iterator[Edit]:
    """`this.x = x` without `this`: the field keeps its old value."""
    target, value = _assigned(node)
    if target is None or value is None or target.type != "field_access":
        return
    if not variables.is_final(target) and text_of(target) == f"this.{text_of(value)}":
        yield replaced(target, text_of(value))


def _shared_collection(node: Node, variables: Variables) -> Iterator[Edit]:
    """The caller's own collection or array is stored or returned instead of a copy."""
    arguments = field_of(node, "arguments")
    given = arguments.named_children if arguments is not None else []
    if node.type == "object_creation_expression":
        kind, body = field_of(node, "type"), node.named_children[-1]
        copies = kind is not None and text_of(kind).partition("<")[0].endswith(_COLLECTIONS)
        if copies and len(given) == 1 and body.type != "class_body" and _is_value(given[0]):
            yield replaced(node, text_of(given[0]))
    elif called_name(node) in _COPIES and given and _is_value(given[0]):
        if called_name(node) != "copyOf" or len(given) == 1 or "length" in text_of(given[1]):
            yield replaced(node, text_of(given[0]))
    elif called_name(node) == "clone" and not given:
        receiver = field_of(node, "object")
        if receiver is not None and text_of(receiver) != "super":
            yield replaced(node, text_of(receiver))


_COLLECTIONS = ("List", "Set", "Map", "Deque", "Queue")


def _is_value(node: Node) -> bool:
    """Whether it may be a collection, rather than the size for a new one."""
    return node.type in ("identifier", "field_access", "method_invocation") and not text_of(
        node
    ).endswith(("size()", "length", "length()", "capacity", "Capacity", "size", "Size"))


def _stale_cache(node: Node, variables: Variables) -> Iterator[Edit]:
    """A cached value is kept after its source may have changed: the check for staleness is
    missing."""
    condition, body = field_of(node, "condition"), field_of(node, "consequence")
    if condition is None or body is None or field_of(node, "alternative") is not None:
        return
    inner = condition.named_children
    test = inner[0] if inner else condition
    operator, right = field_of(test, "operator"), field_of(test, "right")
    if operator is None or right is None or text_of(operator) not in ("||", "&&"):
        return
    left = field_of(test, "left")
    if left is not None and "null" in text_of(left):
        yield replaced(test, text_of(left))


_STATEMENT = frozenset({"expression_statement"})
STATE_KINDS = (
    JavaKind("stale_state", "state", _STATEMENT, _stale_state),
    JavaKind("lost_update", "state", _STATEMENT, _lost_update),
    JavaKind("dropped_call", "state", _STATEMENT, _dropped_call),
    JavaKind("ignored_result", "state", _STATEMENT, _ignored_result),
    JavaKind("self_assignment", "state", _STATEMENT, _self_assignment),
    JavaKind(
        "shared_collection",
        "state",
        words("object_creation_expression method_invocation"),
        _shared_collection,
    ),
    JavaKind("stale_cache", "state", frozenset({"if_statement"}), _stale_cache),
)
