"""Mutations of conditions: wrong, inverted, or incomplete."""

from __future__ import annotations

from collections.abc import Iterator

from tree_sitter import Node

from collect.code.java_tree import called_name, text_of, walk, words
from collect.synthesis.java_mutations.base import Edit, JavaKind, field_of, replaced
from collect.synthesis.java_mutations.variables import Variables

_BOUNDS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_OPPOSITES = {"==": "!=", "!=": "=="}
_BOOLEANS = {"&&": "||", "||": "&&"}
_TRUTHS = words("method_invocation identifier field_access instanceof_expression")


def _off_by_one_bound(node: Node, variables: Variables) -> Iterator[Edit]:
    operator = field_of(node, "operator")
    if operator is not None and text_of(operator) in _BOUNDS:
        yield replaced(operator, _BOUNDS[text_of(operator)])


def _negated_condition(node: Node, variables: Variables) -> Iterator[Edit]:
    condition = _condition(node)
    if condition is None:
        return
    operator = field_of(condition, "operator")
    if condition.type == "unary_expression" and operator is not None and text_of(operator) == "!":
        operand = field_of(condition, "operand")
        if operand is not None and operand.type in _TRUTHS - {"instanceof_expression"}:
            yield replaced(condition, text_of(operand))
    elif condition.type == "binary_expression" and operator is not None:
        if text_of(operator) in _OPPOSITES:
            yield replaced(operator, _OPPOSITES[text_of(operator)])
    elif condition.type == "instanceof_expression":
        yield replaced(condition, f"!({text_of(condition)})")
    elif condition.type in _TRUTHS:
        yield replaced(condition, f"!{text_of(condition)}")


def _condition(node: Node) -> Node | None:
    """The condition of an if, a loop or a ternary, without parentheses."""
    condition = field_of(node, "condition")
    if condition is not None and condition.type == "parenthesized_expression":
        inner = condition.named_children
        return inner[0] if len(inner) == 1 else None
    return condition


def _wrong_boolean_operator(node: Node, variables: Variables) -> Iterator[Edit]:
    operator = field_of(node, "operator")
    if operator is not None and text_of(operator) in _BOOLEANS and not _binds(node):
        yield replaced(operator, _BOOLEANS[text_of(operator)])


def _dropped_condition(node: Node, variables: Variables) -> Iterator[Edit]:
    left, operator, right = (field_of(node, name) for name in ("left", "operator", "right"))
    if left is None or operator is None or right is None:
        return
    if text_of(operator) in _BOOLEANS and not _binds(node):
        yield Edit(left.end_byte, right.end_byte, "")
        yield Edit(left.start_byte, right.start_byte, "")


def _binds(node: Node) -> bool:
    """Whether a pattern in it binds a variable that other parts use."""
    return any(
        part.type == "instanceof_expression" and field_of(part, "name") is not None
        for part in walk(node)
    )


def _reference_equality(node: Node, variables: Variables) -> Iterator[Edit]:
    receiver, arguments = field_of(node, "object"), field_of(node, "arguments")
    if called_name(node) != "equals" or receiver is None or arguments is None:
        return
    given = [text_of(argument) for argument in arguments.named_children]
    both = given if text_of(receiver) == "Objects" else [text_of(receiver), *given]
    if len(both) != 2:
        return
    negated = node.parent if node.parent and node.parent.type == "unary_expression" else None
    if negated is not None:
        yield replaced(negated, f"{both[0]} != {both[1]}")
    else:
        yield replaced(node, f"{both[0]} == {both[1]}")


def _reversed_comparison(node: Node, variables: Variables) -> Iterator[Edit]:
    receiver, arguments = field_of(node, "object"), field_of(node, "arguments")
    if receiver is None or arguments is None:
        return
    given = arguments.named_children
    if called_name(node) == "compareTo" and len(given) == 1 and given[0].type in _TRUTHS:
        yield replaced(node, f"{text_of(given[0])}.compareTo({text_of(receiver)})")
    elif called_name(node) == "compare" and len(given) == 2:
        swapped = f"{text_of(given[1])}, {text_of(given[0])}"
        yield Edit(given[0].start_byte, given[1].end_byte, swapped)


def _lossy_comparison(node: Node, variables: Variables) -> Iterator[Edit]:
    """Compare by a difference cast to int: it overflows, and loses fractions."""
    receiver, arguments = field_of(node, "object"), field_of(node, "arguments")
    if receiver is None or arguments is None or called_name(node) != "compare":
        return
    given = arguments.named_children
    if len(given) == 2 and text_of(receiver) in ("Long", "Double"):
        yield replaced(node, f"(int) ({text_of(given[0])} - {text_of(given[1])})")


_BINARY = frozenset({"binary_expression"})
_CALL = frozenset({"method_invocation"})
KINDS = (
    JavaKind("off_by_one_bound", "boundary", _BINARY, _off_by_one_bound),
    JavaKind(
        "negated_condition",
        "condition",
        words("if_statement while_statement ternary_expression"),
        _negated_condition,
    ),
    JavaKind("wrong_boolean_operator", "condition", _BINARY, _wrong_boolean_operator),
    JavaKind("dropped_condition", "absence", _BINARY, _dropped_condition),
    JavaKind("reference_equality", "data", _CALL, _reference_equality),
    JavaKind("reversed_comparison", "order", _CALL, _reversed_comparison),
    JavaKind("lossy_comparison", "unit", _CALL, _lossy_comparison),
)
