"""The statements of a program that a question can name, and the names they use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from collect.benchmarks.base import Instance
from collect.question_records import Location


@dataclass(frozen=True)
class Statement:
    """One statement in a function."""

    place: Location
    source: str
    """Its first line, without indentation."""
    conditional: bool
    """Whether some path through the function skips it."""
    once: bool
    """Whether a debugger stops at its line exactly once each time it runs."""
    assigned: tuple[str, ...]
    """The names that it assigns."""
    used: tuple[str, ...]
    """The names it reads."""
    attributes: tuple[str, ...]
    """The dotted names it reads: `self.limit`."""


class SourceModule(Protocol):
    """One source file of a program."""

    @property
    def path(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def lines(self) -> Sequence[str]: ...

    @property
    def statements(self) -> Sequence[Statement]:
        """All statements in functions, by line; only the first of each line."""

    def at(self, line: int) -> Statement | None:
        """The innermost statement that spans this line."""

    def literals(self, function: str) -> Iterator[str]:
        """Literals in a function, and outside all functions."""

    def all_literals(self) -> Iterator[str]:
        """All literals of the file."""

    def raising_lines(self, function: str) -> list[int]:
        """The lines of a function's own `raise` or `throw` statements."""


def innermost(statements: Sequence[Statement], line: int) -> Statement | None:
    """The last-starting statement that spans this line."""
    around = [each for each in statements if each.place.line <= line <= each.place.last_line]
    return max(around, key=lambda each: each.place.line, default=None)


def is_test_file(instance: Instance, path: str) -> bool:
    """Whether a file belongs to the tests."""
    named = {test.partition("::")[0] for test in instance.public_tests}
    below = any(
        path == top or path.startswith(f"{top.rstrip('/')}/") for top in instance.test_paths
    )
    name = path.rpartition("/")[2]
    return below or path in named or name == "conftest.py" or name.startswith("test_")
