"""Mutations of conditions and arithmetic: wrong, missing, or slightly off."""

from __future__ import annotations

from tree_sitter import Node

from collect.code.java_tree import INTEGER, LITERALS, called_name, declarators, text_of, walk, words
from collect.synthesis.java_mutations.base import (
    Edit,
    Edits,
    Variables,
    arguments_of,
    field_text,
    fields,
    kind,
    replaced,
)
from collect.synthesis.mutations.reading import one_way

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
