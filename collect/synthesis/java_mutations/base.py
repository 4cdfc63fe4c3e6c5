"""What one kind of mistake in Java is, and the text that its edits work on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tree_sitter import Node

from collect.synthesis.java_mutations.variables import Variables


@dataclass(frozen=True)
class Edit:
    """Another text in the place of some bytes of a file."""

    start: int
    end: int
    text: str


Find = Callable[[Node, Variables], Iterator[Edit]]
"""The edits of one node; nothing where the kind does not fit it."""


@dataclass(frozen=True)
class JavaKind:
    """One kind of mistake that programmers and models make."""

    name: str
    """In lower case with underscores, unique."""
    category: str
    """One of `collect.synthesis.mutations.choosing.CATEGORY_WEIGHTS`."""
    nodes: frozenset[str]
    """The types of node that it looks at."""
    find: Find


def replaced(node: Node, text: str) -> Edit:
    """Another text for a node."""
    return Edit(node.start_byte, node.end_byte, text)


def field_of(node: Node, name: str) -> Node | None:
    """A node's part by the grammar's name for it."""
    return node.child_by_field_name(name)


def removed(statement: Node) -> Edit:
    """The file without a statement, and without the lines that it alone is on."""
    root = statement
    while root.parent is not None:
        root = root.parent
    source = root.text or b""
    start, end = statement.start_byte, statement.end_byte
    before = source.rfind(b"\n", 0, start) + 1
    after = source.find(b"\n", end)
    after = len(source) if after < 0 else after + 1
    alone = not source[before:start].strip() and not source[end:after].strip()
    return Edit(before, after, "") if alone else Edit(start, end, "")
