"""The mutation interface: a kind of mistake, and one place to make it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import libcst as cst

from collect.synthesis.mutations.reading import Surroundings

Replacement = cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]
"""What can replace a node: another node, nothing, or several statements."""


@dataclass(frozen=True)
class Mutation:
    """One edit of one program: replaces the text of one span."""

    kind: str
    category: str
    line: int
    """First line of the edited statement, or edited part, in the original program, 1-based. Code
    that runs this line reaches the edit, also if a branch or loop starts there."""
    start: int
    """Start of the replaced text, in characters."""
    end: int
    text: str
    """The new text."""
    scope: str = ""
    """Qualified name of the enclosing function or class, such as `LRUCache.get`; empty at module
    level."""
    scope_lines: tuple[int, int] = (1, 1)
    """First line, with `def` or `class`, and last line of the scope, 1-based."""
    path: str = ""
    """The program's path as passed to `find_mutations`."""
    source: str = field(default="", repr=False)
    """The original program."""

    def apply(self) -> str:
        """The broken program."""
        return self.source[: self.start] + self.text + self.source[self.end :]


class MutationKind(Protocol):
    """A kind of mistake that programmers and models make."""

    @property
    def name(self) -> str:
        """Unique, in lower case with underscores."""

    @property
    def category(self) -> str:
        """Its family: condition, arithmetic, boundary, data ..."""

    @property
    def nodes(self) -> tuple[type[cst.CSTNode], ...]:
        """The types of node that it handles."""

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        """Replacements for the node, the most likely first; empty if the kind does not apply."""
