"""Java source with one small thing changed: what wrong candidates are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tree_sitter import Node

from collect.java_tree import (
    INTEGER,
    LITERALS,
    called_name,
    declared_types,
    line_of,
    text_of,
    walk,
    words,
)
from collect.models.oracle.reading import Mutation

SWAPPED = {
    "<": "<=",
    "<=": "<",
    ">": ">=",
    ">=": ">",
    "==": "!=",
    "!=": "==",
    "&&": "||",
    "||": "&&",
    "+": "-",
    "-": "+",
    "*": "+",
    "/": "*",
    "%": "/",
}
FLIPPED = {"true": "false", "false": "true"}
LOOPS = words("while_statement do_statement for_statement")
NUMBERS = words("int long double float short byte char Integer Long Double")
GIVE_NUMBERS = words("size length indexOf abs intValue")
SMALL_NUMBERS = set("0123456789")


def mutations(root: Node, function: Node) -> Iterator[Mutation]:
    """The file of `root` with one thing in a function changed, so that it still compiles."""
    source = root.text or b""
    types = declared_types(root)
    for node in walk(function):
        operator = node.child_by_field_name("operator")
        if operator is not None and _can_swap(node, types):
            yield _replaced(source, operator, SWAPPED[text_of(operator)])
        elif node.type == INTEGER and _is_free(node):
            yield _replaced(source, node, str(int(text_of(node)) + 1))
        elif node.type in FLIPPED and not _is_loops_condition(node):
            yield _replaced(source, node, FLIPPED[node.type])
        elif _is_lone_call(node):
            yield _replaced(source, node, ";")


def _replaced(source: bytes, node: Node, text: str) -> Mutation:
    changed = source[: node.start_byte] + text.encode() + source[node.end_byte :]
    return Mutation(line_of(node), changed.decode("utf-8", "replace"))


def _is_free(literal: Node) -> bool:
    """Whether another small number can stand there: a label of a switch may exist already."""
    is_label = literal.parent is not None and literal.parent.type == "switch_label"
    return text_of(literal) in SMALL_NUMBERS and not is_label


def _is_loops_condition(literal: Node) -> bool:
    """Whether a loop goes on for ever by it: what follows could never be reached, or had to be."""
    around = literal.parent
    if around is not None and around.type == "parenthesized_expression":
        around = around.parent
    return around is not None and around.type in LOOPS


def _is_lone_call(statement: Node) -> bool:
    """Whether it is a call that nothing waits for, on one line, where it may be left out."""
    if statement.type != "expression_statement" or statement.parent is None:
        return False
    called = statement.named_children[0].type == "method_invocation"
    one_line = statement.start_point.row == statement.end_point.row
    return called and one_line and statement.parent.type != "switch_rule"


def _can_swap(node: Node, types: Mapping[str, str]) -> bool:
    left, operator, right = (
        node.child_by_field_name(name) for name in ("left", "operator", "right")
    )
    if node.type != "binary_expression" or left is None or operator is None or right is None:
        return False
    if left.end_point.row != right.start_point.row or text_of(operator) not in SWAPPED:
        return False
    if text_of(operator) in ("&&", "||"):
        # A pattern's variable may be bound on one side only.
        return all(part.type != "instanceof_expression" for part in walk(node))
    both = (left, right)
    return text_of(operator) != "+" or all(_is_number(side, types) for side in both)


def _is_number(node: Node, types: Mapping[str, str]) -> bool:
    """Whether it surely is one: a sum of strings can't be made a difference."""
    if node.type == "identifier":
        return types.get(text_of(node)) in NUMBERS
    if node.type in ("parenthesized_expression", "binary_expression"):
        return all(_is_number(part, types) for part in node.named_children)
    if node.type == "method_invocation":
        return called_name(node) in GIVE_NUMBERS
    return node.type in LITERALS
