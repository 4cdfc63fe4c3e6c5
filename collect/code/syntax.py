"""Parses Python source, one thread at a time; what readers of any language find.

CPython before 3.11.8 and 3.12.2 raises SystemError ("AST constructor recursion depth mismatch") if
several threads parse at once: https://github.com/python/cpython/issues/106905.
"""

from __future__ import annotations

import ast
import threading
from dataclasses import dataclass

_LOCK = threading.Lock()
LONGEST = 1_000_000
"""Characters or bytes. A tree can take some hundred bytes for each."""


def parse(source: str | bytes) -> ast.Module:
    """`ast.parse`. Raises SyntaxError, ValueError, RecursionError, MemoryError."""
    _refuse_long(source)
    with _LOCK:
        return ast.parse(source)


def literal(source: str) -> object:
    """`ast.literal_eval` of a text. Raises SyntaxError, ValueError, TypeError, MemoryError,
    RecursionError."""
    _refuse_long(source)
    with _LOCK:
        return ast.literal_eval(source)


def _refuse_long(source: str | bytes) -> None:
    if len(source) > LONGEST:
        raise ValueError(f"it is longer than the {LONGEST} characters that are read as Python")


@dataclass(frozen=True)
class FunctionRange:
    name: str
    """Qualified name, as shown by the debugger."""
    first: int
    """First line, including decorators or annotations."""
    line: int
    """First line without them."""
    last: int


@dataclass(frozen=True)
class Mutation:
    line: int
    text: str
