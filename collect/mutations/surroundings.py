"""What a kind of mistake may know of the place where it is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import libcst as cst

from collect.mutations.places import Place, Places

Node = TypeVar("Node", bound=cst.CSTNode)


@dataclass(frozen=True)
class Scope:
    """A function, a class or the module."""

    name: str
    """Qualified; empty for the module."""
    place: Place
    owner: cst.ClassDef | None
    """The class that the scope is, or that it is a method of."""
    bound: tuple[tuple[str, int], ...]
    """The function's own variables with the line that binds each; none in a class."""
    attributes: tuple[str, ...]
    """Names that the owner assigns to on `self`, in order."""
    lines: tuple[int, int]
    """First line, the one of `def` or `class`, and last line with code."""

    @property
    def function(self) -> cst.FunctionDef | None:
        return self.place.node if isinstance(self.place.node, cst.FunctionDef) else None


@dataclass(frozen=True)
class Surroundings:
    """One node's surroundings."""

    place: Place
    scope: Scope
    keys: tuple[str, ...]
    """Source text of the string literals that the program uses as keys."""
    places: Places = field(repr=False)

    @cached_property
    def parents(self) -> tuple[cst.CSTNode, ...]:
        """From the node's parent up to the module."""
        return tuple(place.node for place in self.place.ancestors())

    @property
    def parent(self) -> cst.CSTNode:
        return self.place.parent.node if self.place.parent else self.place.node

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Variables of the function around it that are bound on an earlier line, in order."""
        line = self.places.line(self.place.code_start)
        return tuple(dict.fromkeys(name for name, bound in self.scope.bound if bound < line))

    @cached_property
    def siblings(self) -> Sequence[cst.BaseStatement]:
        """The statements of the indented block that the node, a statement, is in."""
        parent = self.parent
        if not isinstance(parent, cst.IndentedBlock):
            return ()
        return [part for part in parent.body if isinstance(part, cst.BaseStatement)]

    def next_sibling(self) -> cst.BaseStatement | None:
        """The statement after the node, in the same indented block."""
        after = iter(self.siblings)
        found = any(sibling is self.place.node for sibling in after)
        return next(after, None) if found else None

    def in_scope(self, kind: type[Node]) -> Iterator[Node]:
        """The nodes of a type in the function, class or module around the node."""
        for place in self.places.inside(self.scope.place):
            if isinstance(place.node, kind):
                yield place.node

    def in_owner(self, kind: type[Node]) -> Iterator[Node]:
        """The nodes of a type in the class around the node; none where there is no class."""
        owners = (place for place in self.place.ancestors() if place.node is self.scope.owner)
        for place in self.places.inside(next(owners, self.place)):
            if isinstance(place.node, kind):
                yield place.node

    def code(self, node: cst.CSTNode) -> str:
        """An expression's text."""
        return self.places.code(node)
