"""What every reader of source code gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FunctionRange:
    """One function, and the lines it takes."""

    name: str
    """Qualified, as the debugger shows it."""
    first: int
    """Its first line, decorators or annotations included."""
    line: int
    """Where its definition begins without them."""
    last: int


@dataclass(frozen=True)
class Mutation:
    """A file with one small thing changed."""

    line: int
    text: str
    """The whole file."""
