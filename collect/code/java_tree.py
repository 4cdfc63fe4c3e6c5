"""Java syntax trees, with tree-sitter."""

from __future__ import annotations

from collections.abc import Iterator

import tree_sitter_java
from tree_sitter import Language, Node, Parser


def words(text: str) -> frozenset[str]:
    """A set of names, from a text with blanks between them."""
    return frozenset(text.split())


LANGUAGE = Language(tree_sitter_java.language())
INTEGER = "decimal_integer_literal"
LITERALS = words(f"{INTEGER} decimal_floating_point_literal hex_integer_literal")


def parse(source: bytes) -> Node:
    """The root; unparsable code becomes nodes of type ERROR."""
    return Parser(LANGUAGE).parse(source).root_node


def walk(node: Node) -> Iterator[Node]:
    """A node and its named descendants, in text order."""
    pending = [node]
    while pending:
        node = pending.pop()
        yield node
        pending += reversed(node.named_children)


def line_of(node: Node) -> int:
    """The line where a node starts, from 1."""
    return node.start_point.row + 1


def text_of(node: Node | None) -> str:
    return ((node.text if node else None) or b"").decode("utf-8", "replace")


def called_name(call: Node) -> str:
    return text_of(call.child_by_field_name("name"))


def has_modifier(declaration: Node, word: str) -> bool:
    """Whether a declaration says `final`, `abstract` or the like."""
    modifiers = [child for child in declaration.children if child.type == "modifiers"]
    return any(word in text_of(each).split() for each in modifiers)


def declarators(node: Node) -> list[Node]:
    return node.children_by_field_name("declarator")


def declared_name(declarator: Node) -> Node | None:
    return declarator.child_by_field_name("name")


def declared_types(root: Node) -> dict[str, str]:
    """Types of variables and fields by name, without generics; names with several types are left
    out.
    """
    types: dict[str, set[str]] = {}
    for node in walk(root):
        declared = node.child_by_field_name("type")
        if declared is None:
            continue
        kind = text_of(declared).partition("<")[0]
        own = node.child_by_field_name("name")
        for name in [own, *map(declared_name, declarators(node))]:
            if name is not None and node.type != "method_declaration":
                types.setdefault(text_of(name), set()).add(kind)
    return {name: kinds.pop() for name, kinds in types.items() if len(kinds) == 1}
