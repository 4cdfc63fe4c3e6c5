"""Mutations that leave objects out of date, or share too many of them."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from collect.code.java_tree import called_name, text_of, words
from collect.synthesis.java_mutations.base import Edit, JavaKind, field_of, removed, replaced
from collect.synthesis.java_mutations.variables import IMMUTABLE, Variables, method_of

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
KINDS = (
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
