"""What the oracle looks at inside a Java statement."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tree_sitter import Node

from collect.java_tree import (
    LITERALS,
    called_name,
    declarators,
    declared_name,
    declared_types,
    text_of,
    walk,
    words,
)

LOOKED_AT = words(
    "identifier field_access array_access binary_expression unary_expression instanceof_expression "
    "ternary_expression method_invocation"
)
PURE = words(
    "parenthesized_expression cast_expression argument_list this true false null_literal "
    "character_literal string_literal string_fragment escape_sequence type_identifier "
    "scoped_type_identifier integral_type floating_point_type boolean_type"
)
READABLE = words(
    "String StringBuilder List ArrayList LinkedList Map HashMap TreeMap Set HashSet TreeSet Deque "
    "ArrayDeque Queue Collection BigDecimal LocalDate"
)
"""Types of the JDK whose reading methods change nothing, as a declaration names them."""
READING = words(
    "size length isEmpty charAt contains containsKey containsValue get equals indexOf lastIndexOf "
    "startsWith endsWith substring peek peekFirst peekLast compareTo signum"
)
HEADERS = {
    "for_statement": ("init", "condition"),
    "if_statement": ("condition",),
    "while_statement": ("condition",),
    "switch_expression": ("condition",),
    "enhanced_for_statement": ("value",),
    "enum_constant": ("arguments",),
}
"""Where a statement's expressions stand, where they are not what it begins with."""
OWN_SCOPE = {"lambda_expression", "class_body", "block", "switch_block"}
CONSTANT = re.compile(r"[A-Z][A-Z0-9_]*")
WHITE = re.compile(r"\s+")


class JavaExpressions:
    """The expressions of one file."""

    def __init__(self, root: Node) -> None:
        self._types = declared_types(root)

    def probes(self, statements: Iterable[Node]) -> list[str]:
        """Pure expressions of statements, larger ones before their parts."""
        found: dict[str, None] = {}
        for statement in statements:
            declared = _declared_in(statement)
            for header in _headers(statement):
                for node in _same_scope(header):
                    if self._is_worth_it(node, declared):
                        found[_one_line(node)] = None
        return list(found)

    def assigned(self, statements: Iterable[Node]) -> list[str]:
        """What statements assign to, as far as reading it changes nothing."""
        targets: list[Node] = []
        for statement in statements:
            if statement.type == "local_variable_declaration":
                targets += [name for name in map(declared_name, declarators(statement)) if name]
            elif statement.type == "expression_statement":
                targets += _targets(statement.named_children[0])
        return [_one_line(target) for target in targets if self._is_pure(target)]

    def _is_worth_it(self, node: Node, declared: set[str]) -> bool:
        names = {text_of(part) for part in walk(node) if part.type == "identifier"}
        if node.type not in LOOKED_AT or names & declared or _is_type(node):
            return False
        return not _is_label(node) and self._is_pure(node)

    def _is_pure(self, node: Node) -> bool:
        return all(
            part.type in PURE | LOOKED_AT | LITERALS
            and (part.type != "method_invocation" or self._only_reads(part))
            for part in walk(node)
        )

    def _only_reads(self, call: Node) -> bool:
        receiver = call.child_by_field_name("object")
        if receiver is None:
            return False
        if text_of(receiver) == "Math":
            return True
        if receiver.type == "string_literal":
            return called_name(call) in READING
        name = text_of(receiver).removeprefix("this.")
        # A linked map may reorder itself when it is read.
        reorders = self._types.get(name) == "Map" and called_name(call) == "get"
        return self._types.get(name) in READABLE and called_name(call) in READING and not reorders


def _headers(statement: Node) -> list[Node]:
    """The expressions that a statement evaluates first; of an assignment what is assigned."""
    if statement.type.endswith("_declaration"):
        values = [each.child_by_field_name("value") for each in declarators(statement)]
    elif statement.type in HEADERS:
        values = [statement.child_by_field_name(name) for name in HEADERS[statement.type]]
    elif statement.type.endswith("_statement"):
        values = [*statement.named_children[:1]]
    else:
        values = [statement]
    return [_assigned_value(value) for value in values if value is not None]


def _assigned_value(expression: Node) -> Node:
    value = expression.child_by_field_name("right")
    is_assignment = expression.type == "assignment_expression"
    return value if is_assignment and value is not None else expression


def _declared_in(statement: Node) -> set[str]:
    """Names that a statement itself brings into being: they have no value before it."""
    names = [declared_name(each) for node in walk(statement) for each in declarators(node)]
    header = statement.type in ("for_statement", "enhanced_for_statement")
    own = statement.child_by_field_name("name") if header else None
    return {text_of(name) for name in [own, *names] if name is not None}


def _same_scope(node: Node) -> Iterator[Node]:
    """The node and its parts, larger ones first; names inside other scopes mean nothing here."""
    level = [node]
    while level:
        yield from level
        level = [
            child
            for parent in level
            for child in parent.named_children
            if child.type not in OWN_SCOPE
        ]


def _is_label(node: Node) -> bool:
    """Whether an identifier names a method or a field of something else, or what is assigned."""
    parent = node.parent
    if parent is None or node.type != "identifier":
        return False
    if parent.type == "method_invocation":
        return node == parent.child_by_field_name("name")
    if parent.type == "field_access":
        return node == parent.child_by_field_name("field")
    if parent.type == "resource":
        return node == parent.child_by_field_name("name")
    return parent.type in ("variable_declarator", "method_reference", "labeled_statement")


def _is_type(node: Node) -> bool:
    """Whether it is a class or a stream of `System`, by Java's own naming."""
    text = text_of(node)
    if node.type == "identifier":
        return text[:1].isupper() and not CONSTANT.fullmatch(text)
    return node.type == "field_access" and text in ("System.out", "System.err", "System.in")


def _targets(expression: Node) -> list[Node]:
    if expression.type == "assignment_expression":
        left = expression.child_by_field_name("left")
        return [left] if left is not None else []
    return expression.named_children[:1] if expression.type == "update_expression" else []


def _one_line(node: Node) -> str:
    """The text of an expression; line breaks in it are between its parts, for no string has any."""
    text = text_of(node)
    return WHITE.sub(" ", text) if "\n" in text else text
