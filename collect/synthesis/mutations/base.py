"""The mutation seam: what one kind of mistake is, and one place where it can be made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import libcst as cst

from collect.synthesis.mutations.reading import Surroundings

Replacement = cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]
"""What a node may become: another node, nothing, or several statements."""


@dataclass(frozen=True)
class Mutation:
    """One edit of one program: another text in the place of one span of it."""

    kind: str
    category: str
    line: int
    """Of the statement, or the part of one, that is edited: its first in the original program,
    1-based. What runs the line reaches the edit, be it of a branch or loop that begins there."""
    start: int
    """Where the replaced text begins, in characters."""
    end: int
    text: str
    """What stands there instead."""
    scope: str = ""
    """Qualified name of the function or class around it, as `LRUCache.get`; empty at the module's
    level."""
    scope_lines: tuple[int, int] = (1, 1)
    """First line, the one of `def` or `class`, and last line of the scope, 1-based."""
    path: str = ""
    """Of the program, as it was given to `find_mutations`."""
    source: str = field(default="", repr=False)
    """The original program."""

    def apply(self) -> str:
        """The broken program."""
        return self.source[: self.start] + self.text + self.source[self.end :]


class MutationKind(Protocol):
    """One kind of mistake that programmers and models make."""

    @property
    def name(self) -> str:
        """In lower case with underscores, unique."""

    @property
    def category(self) -> str:
        """The family that it belongs to: condition, arithmetic, boundary, data ..."""

    @property
    def nodes(self) -> tuple[type[cst.CSTNode], ...]:
        """The types of node that it looks at."""

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[Replacement]:
        """What the node may become, likeliest first; nothing where the kind does not fit it."""
