"""A mutation, and the kinds of mistake that a program can be broken with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, get_args, get_type_hints

import libcst as cst

from collect.synthesis.mutations.reading import Surroundings

Replacement = cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]
"""What can replace a node: another node, nothing, or several statements."""
Replacements = Iterator[Replacement]
Find = Callable[[Any, Surroundings], Replacements]


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
    """The program's path as passed to `find_project_mutations`."""
    source: str = field(default="", repr=False)
    """The original program."""

    def apply(self) -> str:
        """The broken program."""
        return self.source[: self.start] + self.text + self.source[self.end :]


def apply_all(mutations: Sequence[Mutation]) -> str:
    """The program with several edits, which are in text order and do not touch."""
    code = mutations[0].source
    for mutation in reversed(mutations):
        code = code[: mutation.start] + mutation.text + code[mutation.end :]
    return code


@dataclass(frozen=True)
class MutationKind:
    """A kind of mistake that programmers and models make."""

    name: str
    """Unique, in lower case with underscores."""
    category: str
    """Its family, one of `finding.CATEGORY_WEIGHTS`."""
    nodes: tuple[Any, ...]
    """The types of node that it handles; their names for Java."""
    find: Callable[[Any, Any], Iterator[Any]]
    """Finds changes of one node, the most likely first; none if the kind does not apply."""


def kind(category: str) -> Callable[[Find], MutationKind]:
    """Make a function a kind of its own name. The type of its parameter `node` tells which nodes it
    handles."""

    def made(find: Find) -> MutationKind:
        handled = get_type_hints(find)["node"]
        return MutationKind(find.__name__, category, get_args(handled) or (handled,), find)

    return made


def kinds_in(*modules: ModuleType) -> list[MutationKind]:
    """The kinds that modules define, in order."""
    members = [member for module in modules for member in vars(module).values()]
    return [member for member in members if isinstance(member, MutationKind)]
