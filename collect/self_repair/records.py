"""A self-repair benchmark on disk: a line a bug, and a card with how it was made."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import Field, ValidationError, model_validator

from collect.errors import ConfigError
from collect.funnel import FunnelStep
from collect.record_lines import read_lines
from collect.self_repair.problem import SOLUTION
from collect.strict_record import StrictRecord
from collect.wrong_fields import first_wrong_field

BUNDLED_FILE = Path(__file__).parents[1] / "benchmarks" / "bundled" / "self_repair.jsonl"


class Step(StrEnum):
    """What a problem must get through, in this order."""

    DATES = "published in the date range"
    LIBRARIES = "libraries in the sandbox"
    CANONICAL = "canonical solution passes, where there is one"
    WRITTEN = "solution written"
    PARSES = "no error of syntax or indentation"
    FAILS = "fails a test"
    FAILS_PUBLIC = "fails a public test"
    ENDS = "ends within the time-out"
    REPEATS = "fails the same way again"


class Failure(StrictRecord):
    """How the first failing public test fails."""

    type: str
    """The exception's class: AssertionError, KeyError ...; TimeoutError where it never ended."""
    message: str
    """Its first lines, bounded."""


class Edit(StrictRecord):
    """The oracle's edit of the canonical solution."""

    kind: str
    category: str
    line: int
    """Of the canonical solution, 1-based."""


class Bug(StrictRecord):
    """One line of the benchmark file: all that an instance needs."""

    id: str = Field(min_length=1)
    source: str
    problem_id: str
    statement: str = Field(min_length=1)
    files: Mapping[str, str]
    """What an agent sees, by path; `solution` is one of them."""
    hidden_files: Mapping[str, str] = {}
    solution: str = SOLUTION
    entry_point: str
    fail_to_pass: tuple[str, ...] = Field(min_length=1)
    pass_to_pass: tuple[str, ...]
    gold_solution: str | None
    """A correct `solution`; None where none is known."""
    failure: Failure
    libraries: tuple[str, ...] = ()
    published: date | None = None
    difficulty: str | None = None
    written_by: str
    edit: Edit | None = None
    """None where a model wrote the solution."""

    @model_validator(mode="after")
    def _solution_is_a_file(self) -> Self:
        if self.solution not in self.files:
            raise ValueError(f"files: there is no {self.solution} among them")
        return self


class Card(StrictRecord):
    """How a benchmark file was made. The paper's full-set pass rate needs `problems` and
    `passed`."""

    source: str
    data: str
    """The file or data set that the problems were read from."""
    writer: str
    solutions: str | None
    seed: int
    from_date: date | None
    to_date: date | None
    limit: int | None
    problems: int
    """Tried: those that got to the step of writing. The full set of a pass rate."""
    passed: int
    """Of `problems`, those whose first solution passes every test."""
    bugs: int
    steps: tuple[FunnelStep, ...]
    without_libraries: Mapping[str, tuple[str, ...]] = {}
    """Problems that were dropped because the sandbox lacks libraries, and which it lacks."""
    failures: Mapping[str, int]
    """Bugs by the exception of their first failing test."""
    dollars: float
    """What a writing model cost."""
    versions: Mapping[str, str]


def card_path(path: Path) -> Path:
    """Where the card of a benchmark file lies."""
    return path.with_name(f"{path.name.removesuffix('.jsonl')}.card.json")


def read_card(path: Path) -> Card:
    """The card of a benchmark file. Raises ConfigError."""
    card = card_path(path)
    try:
        return Card.model_validate_json(card.read_text("utf-8"))
    except FileNotFoundError as error:
        raise ConfigError(
            f"{card}: no such file; `stepinto bench self-repair` writes it beside {path.name}"
        ) from error
    except ValidationError as error:
        raise ConfigError(f"{card}: {first_wrong_field(error, Card)}") from error


def read_bugs(path: Path) -> list[Bug]:
    """The lines of a benchmark file. Raises ConfigError naming the line and the field."""
    return read_lines(path, Bug, "make it with `stepinto bench self-repair`")
