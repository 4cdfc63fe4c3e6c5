"""Mutations of arithmetic, constants and positions that are slightly off."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from collect.code.java_tree import INTEGER, LITERALS, called_name, text_of, words
from collect.synthesis.java_mutations.base import Edit, JavaKind, field_of, replaced
from collect.synthesis.java_mutations.variables import NUMBERS, Variables

_OTHERS = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/"}
_GIVE_NUMBERS = words("size length indexOf lastIndexOf intValue longValue getTime abs min max")
_FLOATING = "decimal_floating_point_literal"
_FIXED = words("switch_label array_access enum_constant ternary_expression")
"""In these nodes, a wrong number is obvious or does not compile."""
_WIDE = words("long double float")


def _wrong_arithmetic_operator(node: Node, variables: Variables) -> Iterator[Edit]:
    left, operator, right = _operands(node)
    if left is None or operator is None or right is None:
        return
    if text_of(operator) in _OTHERS and all(_is_number(each, variables) for each in (left, right)):
        yield replaced(operator, _OTHERS[text_of(operator)])


def _is_number(node: Node, variables: Variables) -> bool:
    """Whether it is certainly numeric: strings can be added but not subtracted."""
    if node.type in ("identifier", "field_access"):
        return variables.type_of(node) in NUMBERS
    if node.type in ("parenthesized_expression", "binary_expression"):
        return all(_is_number(part, variables) for part in node.named_children)
    if node.type == "cast_expression":
        kind = field_of(node, "type")
        return kind is not None and text_of(kind) in NUMBERS
    if node.type == "method_invocation":
        return called_name(node) in _GIVE_NUMBERS
    return node.type in LITERALS or (
        node.type == "field_access" and text_of(node).endswith("length")
    )


def _dropped_offset(node: Node, variables: Variables) -> Iterator[Edit]:
    """`size - 1` becomes `size`."""
    left, operator, right = _operands(node)
    if left is None or operator is None or right is None:
        return
    is_offset = text_of(operator) in "+-" and right.type == INTEGER and text_of(right) == "1"
    if not is_offset or not _is_number(left, variables):
        return
    around = node.parent
    if around is not None and around.type == "parenthesized_expression":
        # Nobody writes `(size)`, which would reveal the missing part.
        yield replaced(around, text_of(left))
    else:
        yield Edit(left.end_byte, right.end_byte, "")


def _wrong_start(node: Node, variables: Variables) -> Iterator[Edit]:
    """A loop, substring or sublist starts one later or earlier."""
    if node.type == "for_statement":
        init = field_of(node, "init")
        value = init.children_by_field_name("declarator") if init is not None else []
        values = [field_of(each, "value") for each in value]
        numbers = [each for each in values if each is not None and each.type == INTEGER]
    elif called_name(node) in ("substring", "subList", "charAt", "get", "skip", "copyOfRange"):
        arguments = field_of(node, "arguments")
        given = arguments.named_children if arguments is not None else []
        numbers = [each for each in given[:1] if each.type == INTEGER]
    else:
        numbers = []
    for number in numbers:
        if text_of(number) in ("0", "1"):
            yield replaced(number, "1" if text_of(number) == "0" else "0")


def _wrong_constant(node: Node, variables: Variables) -> Iterator[Edit]:
    text = text_of(node)
    if node.parent is None or node.parent.type in _FIXED:
        return
    if not text.isdecimal() or text in ("0", "1"):
        return
    value = int(text)
    round_number = value >= 10 and value % 10 == 0
    yield replaced(node, str(value // 10 if round_number else value - 1))
    yield replaced(node, str(value * 10 if round_number else value + 1))


def _integer_division(node: Node, variables: Variables) -> Iterator[Edit]:
    """A cast or fraction is missing, so that a division is not exact."""
    left, operator, right = _operands(node)
    if left is None or operator is None or right is None or text_of(operator) != "/":
        return
    for side in (left, right):
        if side.type == _FLOATING and text_of(side).endswith(".0"):
            yield replaced(side, text_of(side).removesuffix(".0"))


def _dropped_cast(node: Node, variables: Variables) -> Iterator[Edit]:
    """Arithmetic in a type that is too narrow: it overflows, or loses the fraction."""
    kind, value = field_of(node, "type"), field_of(node, "value")
    if kind is None or value is None or text_of(kind) not in _WIDE:
        return
    if node.parent is not None and node.parent.type == "binary_expression":
        yield replaced(node, text_of(value))


def _wrong_rounding(node: Node, variables: Variables) -> Iterator[Edit]:
    name = field_of(node, "name" if node.type == "method_invocation" else "field")
    if name is not None and text_of(name) in _ROUNDING:
        yield replaced(name, _ROUNDING[text_of(name)])


_ROUNDING = {
    "floor": "ceil",
    "ceil": "floor",
    "round": "floor",
    "HALF_UP": "HALF_DOWN",
    "HALF_EVEN": "HALF_UP",
    "HALF_DOWN": "HALF_UP",
    "CEILING": "FLOOR",
    "FLOOR": "CEILING",
    "UP": "DOWN",
    "DOWN": "UP",
    "floorMod": "floorDiv",
    "floorDiv": "floorMod",
}


def _wrong_compound(node: Node, variables: Variables) -> Iterator[Edit]:
    """A running total is overwritten instead of added to."""
    operator = field_of(node, "operator")
    if operator is not None and text_of(operator) in ("+=", "-=", "*=", "|=", "&="):
        yield replaced(operator, "=")


def _operands(node: Node) -> tuple[Node | None, Node | None, Node | None]:
    return field_of(node, "left"), field_of(node, "operator"), field_of(node, "right")


_BINARY = frozenset({"binary_expression"})
NUMBERS_KINDS = (
    JavaKind("wrong_arithmetic_operator", "arithmetic", _BINARY, _wrong_arithmetic_operator),
    JavaKind("dropped_offset", "boundary", _BINARY, _dropped_offset),
    JavaKind("wrong_start", "boundary", words("for_statement method_invocation"), _wrong_start),
    JavaKind("wrong_constant", "data", frozenset({INTEGER}), _wrong_constant),
    JavaKind("integer_division", "unit", _BINARY, _integer_division),
    JavaKind("dropped_cast", "unit", frozenset({"cast_expression"}), _dropped_cast),
    JavaKind(
        "wrong_rounding", "arithmetic", words("method_invocation field_access"), _wrong_rounding
    ),
    JavaKind("overwritten_total", "state", frozenset({"assignment_expression"}), _wrong_compound),
)
