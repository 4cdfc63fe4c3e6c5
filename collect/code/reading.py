"""Results of reading source code, in any language."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FunctionRange:
    """A function and its lines."""

    name: str
    """Qualified name, as shown by the debugger."""
    first: int
    """First line, including decorators or annotations."""
    line: int
    """First line without them."""
    last: int


@dataclass(frozen=True)
class Mutation:
    """A file with one small change."""

    line: int
    text: str
    """The file's whole text."""
