"""Mutations that leave objects out of date or shared, of statements and branches, and of names and
parts of calls."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from tree_sitter import Node

from collect.code.java_tree import called_name, text_of, walk, words
from collect.synthesis.java_mutations.base import (
    BLOCKS,
    Edit,
    Edits,
    Variables,
    arguments_of,
    field_text,
    fields,
    is_in,
    kind,
    method_of,
    removed,
    replaced,
    swapped,
)

_IMMUTABLE = words(
    "String BigDecimal BigInteger LocalDate LocalDateTime LocalTime Duration Instant"
)
_RESETS = words("null true false 0 -1 0L 1")
_FORGETTING = words("clear remove removeIf reset invalidate removeFirst removeLast pop poll evict")
_COPIES = words("copyOf unmodifiableList unmodifiableSet unmodifiableMap unmodifiableCollection")
_COLLECTIONS = ("List", "Set", "Map", "Deque", "Queue")
_SIZES = ("size()", "length", "length()", "capacity", "Capacity", "size", "Size")


def _assigned(statement: Node) -> tuple[Node | None, Node | None]:
    """The target and the new value of an assignment, if they are explicit."""
    expression = statement.named_children[0]
    if expression.type == "assignment_expression":
        left, right = fields(expression, "left", "right")
        return left, right
    return expression.named_children[0] if expression.type == "update_expression" else None, None


def _is_reset(statement: Node, variables: Variables) -> bool:
    target, value = _assigned(statement)
    if target is not None and value is not None:
        return variables.is_field(target) and text_of(value) in _RESETS
    return called_name(statement.named_children[0]) in _FORGETTING


@kind("state", "expression_statement")
def stale_state(node: Node, variables: Variables) -> Edits:
    """A computed or recorded value is not reset."""
    method = method_of(node)
    in_constructor = method is not None and method.type != "method_declaration"
    if is_in(node, BLOCKS) and _is_reset(node, variables) and not in_constructor:
        yield removed(node)


@kind("state", "expression_statement")
def lost_update(node: Node, variables: Variables) -> Edits:
    """An assignment is missing that later code reads."""
    target, _ = _assigned(node)
    if target is None or not is_in(node, BLOCKS) or _is_reset(node, variables):
        return
    if not variables.is_final(target):
        yield removed(node)


@kind("state", "expression_statement")
def dropped_call(node: Node, variables: Variables) -> Edits:
    """A call is missing whose result is unused, so it is made for its effect."""
    called = node.named_children[0]
    effect = called.type == "method_invocation" and called_name(called) not in _FORGETTING
    if effect and is_in(node, BLOCKS):
        yield removed(node)


@kind("state", "expression_statement")
def ignored_result(node: Node, variables: Variables) -> Edits:
    """The result of a method of an immutable value is dropped."""
    target, value = _assigned(node)
    if target is not None and value is not None and value.type == "method_invocation":
        same = field_text(value, "object") == text_of(target)
        if same and variables.type_of(target) in _IMMUTABLE:
            yield replaced(node, f"{text_of(value)};")


@kind("state", "expression_statement")
def self_assignment(node: Node, variables: Variables) -> Edits:
    """`this.x = x` without `this`: the field keeps its old value."""
    target, value = _assigned(node)
    if target is None or value is None or variables.is_final(target):
        return
    if text_of(target) == f"this.{text_of(value)}":
        yield replaced(target, text_of(value))


@kind("state", "object_creation_expression method_invocation")
def shared_collection(node: Node, variables: Variables) -> Edits:
    """The caller's own collection or array is stored or returned instead of a copy."""
    given, receiver = arguments_of(node), field_text(node, "object")
    if node.type == "object_creation_expression":
        copies = field_text(node, "type").partition("<")[0].endswith(_COLLECTIONS)
        alone = len(given) == 1 and node.named_children[-1].type != "class_body"
        if copies and alone and _is_value(given[0]):
            yield replaced(node, text_of(given[0]))
    elif called_name(node) in _COPIES and given and _is_value(given[0]):
        if called_name(node) != "copyOf" or len(given) == 1 or "length" in text_of(given[1]):
            yield replaced(node, text_of(given[0]))
    elif called_name(node) == "clone" and not given and receiver not in ("", "super"):
        yield replaced(node, receiver)


def _is_value(node: Node) -> bool:
    """Whether it may be a collection, rather than the size for a new one."""
    named = node.type in ("identifier", "field_access", "method_invocation")
    return named and not text_of(node).endswith(_SIZES)


@kind("state", "if_statement")
def stale_cache(node: Node, variables: Variables) -> Edits:
    """A cached value is kept after its source may have changed: the check for staleness is
    missing."""
    if fields(node, "alternative"):
        return
    for condition in fields(node, "condition"):
        test = condition.named_children[0] if condition.named_children else condition
        match fields(test, "left", "operator", "right"):
            case [left, operator, _] if text_of(operator) in ("||", "&&"):
                if "null" in text_of(left):
                    yield replaced(test, text_of(left))


# Statements and branches.

_LEAVING = words("return_statement continue_statement break_statement throw_statement")
_LOOPS = words("for_statement enhanced_for_statement while_statement do_statement")
_CHANGING = words("assignment_expression update_expression method_invocation")


def _guarded(node: Node) -> Node | None:
    """The single statement of an `if` without `else` in a block."""
    if not is_in(node, BLOCKS) or fields(node, "alternative"):
        return None
    body = node.child_by_field_name("consequence")
    if body is None or body.type != "block":
        return body
    inner = [child for child in body.named_children if not child.type.endswith("comment")]
    return inner[0] if len(inner) == 1 else None


@kind("absence", "if_statement")
def dropped_guard(node: Node, variables: Variables) -> Edits:
    """A special case is not handled, or wrong input is accepted."""
    inner = _guarded(node)
    if inner is not None and inner.type in _LEAVING:
        yield removed(node)


@kind("absence", "if_statement")
def dropped_branch(node: Node, variables: Variables) -> Edits:
    """An `else` is missing, or the first of several cases."""
    match fields(node, "consequence", "alternative"):
        case [body, other]:
            yield Edit(body.end_byte, other.end_byte)
            if other.type == "if_statement":
                yield Edit(node.start_byte, other.start_byte)


@kind("absence", "if_statement")
def unconditional(node: Node, variables: Variables) -> Edits:
    """A conditional statement runs always."""
    inner = _guarded(node)
    if inner is not None and inner.type == "expression_statement":
        yield replaced(node, text_of(inner))


@kind("order", "if_statement ternary_expression")
def swapped_branches(node: Node, variables: Variables) -> Edits:
    match fields(node, "consequence", "alternative"):
        case [one, other] if other.type != "if_statement":
            on_one_line = one.start_point.row == one.end_point.row
            if on_one_line or node.type == "ternary_expression":
                yield swapped(one, other)


@kind("iteration", "break_statement continue_statement")
def wrong_loop_control(node: Node, variables: Variables) -> Edits:
    if node.named_children:
        return
    if node.type == "continue_statement":
        yield replaced(node, "break;")
    elif _in_loop(node):
        yield replaced(node, "continue;")


def _in_loop(node: Node) -> bool:
    outer = node.parent
    while outer is not None and outer.type not in _LOOPS:
        if outer.type.startswith("switch") or outer.type.endswith("_declaration"):
            return False
        outer = outer.parent
    return outer is not None


@kind("flow", "break_statement")
def missing_break(node: Node, variables: Variables) -> Edits:
    """A case falls through into the next one."""
    if node.named_children or node.parent is None:
        return
    group = node.parent.parent if node.parent.type == "block" else node.parent
    if group is not None and group.type == "switch_block_statement_group":
        following = group.next_named_sibling
        if following is not None and following.type == "switch_block_statement_group":
            yield removed(node)


@kind("iteration", "for_statement enhanced_for_statement")
def early_return(node: Node, variables: Variables) -> Edits:
    """A loop ends after its first iteration, because the return moved inside."""
    following, body = node.next_named_sibling, node.child_by_field_name("body")
    if following is None or following.type != "return_statement" or not following.named_children:
        return
    if body is None or body.type != "block" or not body.named_children:
        return
    last = body.named_children[-1]
    if not any(part.type in _LEAVING for part in walk(last)):
        margin = " " * last.start_point.column
        yield Edit(last.end_byte, last.end_byte, f"\n{margin}{text_of(following)}")


@kind("exception", "finally_clause")
def skipped_cleanup(node: Node, variables: Variables) -> Edits:
    """The body of `finally` runs only without an error, or not at all."""
    before = node.prev_sibling
    if before is not None and before.type == "catch_clause":
        yield Edit(before.end_byte, node.end_byte)


@kind("order", "expression_statement")
def swapped_statements(node: Node, variables: Variables) -> Edits:
    """Two steps run in the wrong order."""
    following = node.next_named_sibling
    if following is None or following.type != "expression_statement" or not is_in(node, BLOCKS):
        return
    both = {node.named_children[0].type, following.named_children[0].type}
    if both <= _CHANGING and _names(node) & _names(following):
        yield swapped(node, following)


def _names(node: Node) -> set[str]:
    return {text_of(part) for part in walk(node) if part.type == "identifier"}


# Names and calls.

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


_OTHER_METHODS = _others()


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
            yield from (replaced(name, other) for other in _OTHER_METHODS.get(text_of(name), ()))


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
