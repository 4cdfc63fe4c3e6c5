"""The interface of a Java mutation kind, and its text edits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tree_sitter import Node

from collect.synthesis.java_mutations.variables import Variables


@dataclass(frozen=True)
class Edit:
    """Replaces some bytes of a file with another text."""

    start: int
    end: int
    text: str


Find = Callable[[Node, Variables], Iterator[Edit]]
"""Finds the edits of one node; none if the kind does not apply."""


@dataclass(frozen=True)
class JavaKind:
    """A kind of mistake that programmers and models make."""

    name: str
    """Unique, in lower case with underscores."""
    category: str
    """One of `collect.synthesis.mutations.finding.CATEGORY_WEIGHTS`."""
    nodes: frozenset[str]
    """The types of node that it handles."""
    find: Find


def replaced(node: Node, text: str) -> Edit:
    """Replace a node's text."""
    return Edit(node.start_byte, node.end_byte, text)


def field_of(node: Node, name: str) -> Node | None:
    """A node's child by its field name in the grammar."""
    return node.child_by_field_name(name)


def removed(statement: Node) -> Edit:
    """Remove a statement, with the lines that contain nothing else."""
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
