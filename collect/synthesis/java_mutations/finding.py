"""Realistic edits that break a correct Java program, found on its syntax tree.

An edit may not compile: the caller has to check.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from itertools import pairwise

from tree_sitter import Node

from collect.code.java_tree import (
    INTEGER,
    LITERALS,
    called_name,
    declarators,
    field_text,
    fields,
    parse,
    text_of,
    walk,
    words,
)
from collect.errors import ConfigError
from collect.synthesis.java_mutations.base import (
    BLOCKS,
    CLASSES,
    METHODS,
    Edit,
    Edits,
    Variables,
    arguments_of,
    is_in,
    kind,
    method_of,
    removed,
    replaced,
    swapped,
)
from collect.synthesis.mutations.base import Mutation, MutationKind, kinds_in, one_way

# Conditions: wrong, missing, or slightly off.

_BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_OPPOSITES = {"==": "!=", "!=": "=="}
_BOOLEANS = {"&&": "||", "||": "&&"}
_TRUTHS = words("method_invocation identifier field_access")


@kind("boundary", "binary_expression")
def off_by_one_bound(node: Node, variables: Variables) -> Edits:
    for operator in fields(node, "operator"):
        if text_of(operator) in _BOUNDS:
            yield replaced(operator, _BOUNDS[text_of(operator)])


@kind("condition", "if_statement while_statement ternary_expression")
def negated_condition(node: Node, variables: Variables) -> Edits:
    condition = node.child_by_field_name("condition")
    if condition is not None and condition.type == "parenthesized_expression":
        inner = condition.named_children
        condition = inner[0] if len(inner) == 1 else None
    if condition is None:
        return
    if condition.type == "unary_expression" and field_text(condition, "operator") == "!":
        for operand in fields(condition, "operand"):
            if operand.type in _TRUTHS:
                yield replaced(condition, text_of(operand))
    elif condition.type == "binary_expression":
        for operator in fields(condition, "operator"):
            if text_of(operator) in _OPPOSITES:
                yield replaced(operator, _OPPOSITES[text_of(operator)])
    elif condition.type == "instanceof_expression":
        yield replaced(condition, f"!({text_of(condition)})")
    elif condition.type in _TRUTHS:
        yield replaced(condition, f"!{text_of(condition)}")


@kind("condition", "binary_expression")
def wrong_boolean_operator(node: Node, variables: Variables) -> Edits:
    for operator in fields(node, "operator"):
        if text_of(operator) in _BOOLEANS and not _binds(node):
            yield replaced(operator, _BOOLEANS[text_of(operator)])


@kind("absence", "binary_expression")
def dropped_condition(node: Node, variables: Variables) -> Edits:
    match fields(node, "left", "operator", "right"):
        case [left, operator, right] if text_of(operator) in _BOOLEANS and not _binds(node):
            yield Edit(left.end_byte, right.end_byte)
            yield Edit(left.start_byte, right.start_byte)


def _binds(node: Node) -> bool:
    """Whether a pattern in it binds a variable that other parts use."""
    tests = (part for part in walk(node) if part.type == "instanceof_expression")
    return any(fields(test, "name") for test in tests)


@kind("data", "method_invocation")
def reference_equality(node: Node, variables: Variables) -> Edits:
    receiver, given = field_text(node, "object"), list(map(text_of, arguments_of(node)))
    both = given if receiver == "Objects" else [receiver, *given]
    if called_name(node) == "equals" and receiver and len(both) == 2:
        if node.parent is not None and node.parent.type == "unary_expression":
            yield replaced(node.parent, f"{both[0]} != {both[1]}")
        else:
            yield replaced(node, f"{both[0]} == {both[1]}")


@kind("order", "method_invocation")
def reversed_comparison(node: Node, variables: Variables) -> Edits:
    receiver = field_text(node, "object")
    match called_name(node), arguments_of(node):
        case "compareTo", [given] if receiver and given.type in _TRUTHS | {"instanceof_expression"}:
            yield replaced(node, f"{text_of(given)}.compareTo({receiver})")
        case "compare", [one, other] if receiver:
            yield Edit(one.start_byte, other.end_byte, f"{text_of(other)}, {text_of(one)}")


@kind("unit", "method_invocation")
def lossy_comparison(node: Node, variables: Variables) -> Edits:
    """Compare by a difference cast to int: it overflows, and loses fractions."""
    match called_name(node), field_text(node, "object"), arguments_of(node):
        case "compare", "Long" | "Double", [one, other]:
            yield replaced(node, f"(int) ({text_of(one)} - {text_of(other)})")


# Arithmetic, constants and positions.

_NUMBERS = words("int long short byte char double float Integer Long Short Byte Double Float")
_OTHERS = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/"}
_GIVE_NUMBERS = words("size length indexOf lastIndexOf intValue longValue getTime abs min max")
_FIXED = words("switch_label array_access enum_constant ternary_expression")
"""In these nodes, a wrong number is obvious or does not compile."""
_FROM_START = words("substring subList charAt get skip copyOfRange")
_ROUNDING = one_way(
    "floor ceil, ceil floor, round floor, HALF_UP HALF_DOWN, HALF_EVEN HALF_UP, HALF_DOWN HALF_UP,"
    "CEILING FLOOR, FLOOR CEILING, UP DOWN, DOWN UP, floorMod floorDiv, floorDiv floorMod"
)


@kind("arithmetic", "binary_expression")
def wrong_arithmetic_operator(node: Node, variables: Variables) -> Edits:
    match fields(node, "left", "operator", "right"):
        case [left, operator, right] if text_of(operator) in _OTHERS:
            if _is_number(left, variables) and _is_number(right, variables):
                yield replaced(operator, _OTHERS[text_of(operator)])


def _is_number(node: Node, variables: Variables) -> bool:
    """Whether it is certainly numeric: strings can be added but not subtracted."""
    if node.type in ("identifier", "field_access"):
        return variables.type_of(node) in _NUMBERS
    if node.type in ("parenthesized_expression", "binary_expression"):
        return all(_is_number(part, variables) for part in node.named_children)
    if node.type == "cast_expression":
        return field_text(node, "type") in _NUMBERS
    if node.type == "method_invocation":
        return called_name(node) in _GIVE_NUMBERS
    return node.type in LITERALS


@kind("boundary", "binary_expression")
def dropped_offset(node: Node, variables: Variables) -> Edits:
    """`size - 1` becomes `size`."""
    match fields(node, "left", "operator", "right"):
        case [left, operator, right] if text_of(operator) in ("+", "-") and text_of(right) == "1":
            if not _is_number(left, variables):
                return
            outer = node.parent
            if outer is not None and outer.type == "parenthesized_expression":
                # Nobody writes `(size)`, which would reveal the missing part.
                yield replaced(outer, text_of(left))
            else:
                yield Edit(left.end_byte, right.end_byte)


@kind("boundary", "for_statement method_invocation")
def wrong_start(node: Node, variables: Variables) -> Edits:
    """A loop, substring or sublist starts one later or earlier."""
    starts: list[Node] = []
    if node.type == "for_statement":
        for init in fields(node, "init"):
            starts = [value for each in declarators(init) for value in fields(each, "value")]
    elif called_name(node) in _FROM_START:
        starts = arguments_of(node)[:1]
    for start in starts:
        if text_of(start) in ("0", "1"):
            yield replaced(start, "1" if text_of(start) == "0" else "0")


@kind("data", INTEGER)
def wrong_constant(node: Node, variables: Variables) -> Edits:
    text = text_of(node)
    if node.parent is None or node.parent.type in _FIXED or text in ("0", "1"):
        return
    if text.isdecimal():
        value = int(text)
        round_number = value >= 10 and value % 10 == 0
        yield replaced(node, str(value // 10 if round_number else value - 1))
        yield replaced(node, str(value * 10 if round_number else value + 1))


@kind("unit", "binary_expression")
def integer_division(node: Node, variables: Variables) -> Edits:
    """A cast or fraction is missing, so that a division is not exact."""
    if field_text(node, "operator") == "/":
        for side in fields(node, "left", "right"):
            if side.type == "decimal_floating_point_literal" and text_of(side).endswith(".0"):
                yield replaced(side, text_of(side).removesuffix(".0"))


@kind("unit", "cast_expression")
def dropped_cast(node: Node, variables: Variables) -> Edits:
    """Arithmetic in a type that is too narrow: it overflows, or loses the fraction."""
    wide = field_text(node, "type") in ("long", "double", "float")
    if wide and node.parent is not None and node.parent.type == "binary_expression":
        yield replaced(node, field_text(node, "value"))


@kind("arithmetic", "method_invocation field_access")
def wrong_rounding(node: Node, variables: Variables) -> Edits:
    for name in fields(node, "name" if node.type == "method_invocation" else "field"):
        if text_of(name) in _ROUNDING:
            yield replaced(name, _ROUNDING[text_of(name)])


@kind("state", "assignment_expression")
def overwritten_total(node: Node, variables: Variables) -> Edits:
    """A running total is overwritten instead of added to."""
    for operator in fields(node, "operator"):
        if text_of(operator) in ("+=", "-=", "*=", "|=", "&="):
            yield replaced(operator, "=")


# Objects out of date or shared.

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
        return variables.field_of(target) != "" and text_of(value) in _RESETS
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


@kind("inheritance", "method_declaration")
def dropped_override(node: Node, variables: Variables) -> Edits:
    """A method that is inherited instead."""
    before = node.prev_sibling
    while before is not None and before.type.endswith("comment"):
        before = before.prev_sibling
    marks = node.named_children[0].named_children
    if before is not None and any(text_of(each) == "@Override" for each in marks):
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
_PAIRS = """
    startsWith endsWith, indexOf lastIndexOf, containsKey containsValue, min max,
    isBefore isAfter, plusDays minusDays, plusMonths minusMonths, plusHours minusHours,
    plusMinutes minusMinutes, addFirst addLast, getFirst getLast, peekFirst peekLast,
    pollFirst pollLast, offerFirst offerLast, removeFirst removeLast, firstKey lastKey,
    first last, floorKey ceilingKey, floorEntry ceilingEntry, lowerKey floorKey,
    higherKey ceilingKey, headMap tailMap, headSet tailSet, anyMatch allMatch,
    toLowerCase toUpperCase, add subtract, multiply divide, plus minus, equals equalsIgnoreCase,
    put putIfAbsent, addAll retainAll, containsAll removeAll, getKey getValue, keySet values,
    isEmpty isPresent, isDigit isLetter, isUpperCase isLowerCase, append insert, poll peek
"""
_OTHER_METHODS = [pair.split() for pair in _PAIRS.split(",")]
_CHAINED = words(
    "reversed trim strip toLowerCase toUpperCase sorted distinct filter negate abs normalize "
    "stripTrailingZeros limit skip thenComparing thenComparingInt setScale minusDays plusDays "
    "withDayOfMonth intern"
)
_VALUES = words(
    "argument_list binary_expression return_statement array_access assignment_expression"
)
_FLAGS = words("argument_list variable_declarator return_statement assignment_expression")


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
            for one, other in _OTHER_METHODS:
                if text_of(name) in (one, other):
                    yield replaced(name, other if text_of(name) == one else one)


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


# Find all of them.

JAVA_KINDS = kinds_in(sys.modules[__name__])
_ALWAYS = words(
    "annotation marker_annotation import_declaration package_declaration throw_statement "
    "assert_statement line_comment block_comment annotation_type_declaration module_declaration"
)
_LOGGING = re.compile(r"(?:^|[._])(?:log|logger|System\.(?:out|err))\.", re.IGNORECASE)


def find_java_mutations(code: str, path: str = "") -> list[Mutation]:
    """Every mutation of a file, in text order. Raises ConfigError if it can't be parsed as Java.
    `path` is only recorded."""
    data = code.encode()
    root = parse(data)
    if root.has_error:
        raise ConfigError(f"{path or 'the file to break'} is not Java that can be parsed")
    variables = Variables(root)
    by_type: dict[str, list[MutationKind]] = {}
    for mistake in JAVA_KINDS:
        for name in mistake.nodes:
            by_type.setdefault(name, []).append(mistake)

    def characters(position: int) -> int:
        return position if len(data) == len(code) else len(data[:position].decode())

    mutations = [
        Mutation(
            kind=mistake.name,
            category=mistake.category,
            line=node.start_point.row + 1,
            start=characters(edit.start),
            end=characters(edit.end),
            text=edit.text,
            scope=scope_name(scope),
            scope_lines=(scope.start_point.row + 1, scope.end_point.row + 1),
            path=path,
            source=code,
        )
        for node, scope in _visited(root)
        for mistake in by_type.get(node.type, ())
        for edit in mistake.find(node, variables)
    ]
    return sorted(mutations, key=lambda mutation: (mutation.start, mutation.end))


def _visited(root: Node) -> Iterator[tuple[Node, Node]]:
    """The nodes inside classes, each with its innermost method or class; a method is its own."""
    pending: list[tuple[Node, Node | None]] = [(root, None)]
    while pending:
        node, scope = pending.pop()
        if _left_alone(node):
            continue
        inner = node if node.type in CLASSES | METHODS else scope
        if scope is not None:
            yield node, node if node.type in METHODS else scope
        pending += [(child, inner) for child in reversed(node.named_children)]


def scope_name(node: Node) -> str:
    """The qualified name of a method or class: `Cart.total`, `Cart.<init>`."""
    parts: list[str] = []
    around: Node | None = node
    while around is not None:
        if around.type in CLASSES or around.type == "method_declaration":
            parts.append(field_text(around, "name"))
        elif around.type in METHODS:
            parts.append("<init>")
        around = around.parent
    return ".".join(reversed(parts))


def _left_alone(node: Node) -> bool:
    """Nodes to skip: a change there is no mistake, or only visible to people."""
    if node.type == "expression_statement":
        node = node.named_children[0]
    if node.type == "method_declaration":
        return field_text(node, "name") in ("hashCode", "main")
    if node.type == "method_invocation":
        receiver = field_text(node, "object") + "."
        return called_name(node) in ("println", "printStackTrace") or bool(
            _LOGGING.search(receiver)
        )
    if node.type == "field_declaration":
        return "serialVersionUID" in text_of(node)
    return node.type in _ALWAYS
