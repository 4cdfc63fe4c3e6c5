"""One programming problem, whichever data set it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Protocol

from collect.benchmarks.row_files import Rows
from sandbox.text import source_lines

SOLUTION = "solution.py"


@dataclass(frozen=True)
class TestFile:
    """A file of tests that pytest runs."""

    __test__ = False

    code: str = field(repr=False)
    names: tuple[str, ...]
    """Of the tests in it, as a node id goes on after the file: `test_1`, `TestCases::test_one`."""


@dataclass(frozen=True)
class Problem:
    """What is to be written, and how it is tested."""

    id: str
    """Upstream's own."""
    source: str
    """The data set, as the config calls it."""
    statement: str = field(repr=False)
    """The coding task, as a model is given it: not what fails, and not how it is tested."""
    starter: str = field(repr=False)
    """Code that a solution begins with or fills in; may be empty."""
    canonical: str | None = field(repr=False)
    """A whole correct program, where upstream has one."""
    entry_point: str
    """The function or method under test, as in `Solution.add`; empty for a program that reads
    standard input."""
    public_tests: TestFile
    private_tests: TestFile | None = None
    prelude: str = field(repr=False, default="")
    """Code whose names a solution may use without importing them; upstream runs it first."""
    libraries: tuple[str, ...] = ()
    """Modules that a solution or a test imports, outermost packages only."""
    published: date | None = None
    """When it was published."""
    difficulty: str | None = None


class ProblemSource(Protocol):
    """A data set of problems: where it lies on the hub, and what its rows mean."""

    @property
    def name(self) -> str: ...

    @property
    def hub_id(self) -> str: ...

    @property
    def split(self) -> str:
        """Read where the config names none."""

    def hub_rows(self, hub_id: str, split: str) -> Rows:
        """Raises ConfigError."""

    def problem(self, where: str, row: object) -> Problem:
        """One row; `where` names it. Raises ConfigError."""


def numbered(imports: str, bodies: Sequence[str], private: bool = False) -> TestFile:
    """A file of the functions `test_1`, `test_2` ..., each with one of the bodies.

    Private ones are called `test_private_1` ...: pytest's report tells tests apart by their names.
    """
    prefix = "test_private_" if private else "test_"
    names = tuple(f"{prefix}{number}" for number in range(1, len(bodies) + 1))
    functions = [
        f"def {name}():\n{_indented(body)}\n" for name, body in zip(names, bodies, strict=True)
    ]
    return TestFile("\n\n".join([imports, *functions]), names)


def _indented(body: str) -> str:
    return "\n".join(f"    {line}" for line in source_lines(body))
