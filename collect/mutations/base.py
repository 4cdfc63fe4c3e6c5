"""The mutation seam: what one kind of mistake is, and one place where it can be made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

import libcst as cst


@dataclass(frozen=True)
class Surroundings:
    """What a kind may know of a node's place."""

    parents: tuple[cst.CSTNode, ...]
    """From the node's parent up to the module."""
    names: tuple[str, ...] = ()
    """Variables of the function around it that are bound on an earlier line, in order."""
    keys: tuple[str, ...] = ()
    """Source text of the string literals that the program uses as keys."""

    @property
    def parent(self) -> cst.CSTNode:
        return self.parents[0]


@dataclass(frozen=True)
class Mutation:
    """One edit of one program."""

    kind: str
    category: str
    line: int
    """Of the edit's first line in the original program, 1-based."""
    module: cst.Module = field(repr=False, compare=False)
    node: cst.CSTNode = field(repr=False, compare=False)
    replacement: cst.CSTNode = field(repr=False, compare=False)

    def apply(self) -> str:
        """The broken program."""
        changed = self.module.deep_replace(self.node, self.replacement)
        return changed.code if isinstance(changed, cst.Module) else self.module.code


class MutationKind(Protocol):
    """One kind of mistake that programmers and models make."""

    @property
    def name(self) -> str:
        """In lower case with underscores, unique."""

    @property
    def category(self) -> str:
        """The family that it belongs to: condition, arithmetic, boundary, data ..."""

    def replacements(self, node: cst.CSTNode, around: Surroundings) -> Iterator[cst.CSTNode]:
        """What the node may become, likeliest first; nothing where the kind does not fit it."""
