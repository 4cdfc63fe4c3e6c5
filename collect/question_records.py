"""A file of runtime questions: a line a question, and a card with how they came to be.

What is asked (`Ask`) and what is true (`Truth`) are apart: who answers may know the first, and only
the scorer reads the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from collect.benchmarks.base import Language
from collect.store.atomic_files import write_text
from collect.store.record_lines import StrictRecord, read_lines

SCHEMA_VERSION = 1


class Category(StrEnum):
    """What a main agent asks (Debug2Fix, table 3)."""

    EXCEPTION = "exception_diagnosis"
    ROOT_CAUSE = "root_cause"
    LOCAL = "local_variable"
    ATTRIBUTE = "attribute_value"
    ASSERTION = "assertion_failure"
    REACHABILITY = "code_reachability"
    POST_FIX = "post_fix_verification"


class Drop(StrEnum):
    """Why something that could be asked is no question."""

    NONDETERMINISTIC = "another answer in a second fresh sandbox"
    UNREADABLE = "value too long, cut, or not to be compared"
    ON_SOURCE = "readable off the source"
    UNBALANCED = "one more yes than there are noes to balance it"
    DUPLICATE = "the same place and answer as another question"
    LIMIT = "over the limit of its category"


class Location(StrictRecord):
    """A statement."""

    file: str
    """Relative to the workspace."""
    line: int
    last_line: int
    """Of the statement, inclusive."""
    function: str = ""
    """Qualified name; empty at module level."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class ValueAsk(StrictRecord):
    """What an expression is when execution comes to a line."""

    kind: Literal["value"] = "value"
    expression: str
    place: Location
    hit: int = Field(ge=1)
    """Which time the line is reached, from 1."""
    after: bool = False
    """Once the line has run, in place of just before."""


class ExceptionAsk(StrictRecord):
    """Which exception, and where it is raised."""

    kind: Literal["exception"] = "exception"
    ends_test: bool
    """The one that ends the test; else the first that the program raises, handled or not."""
    function: str = ""
    """Not the one that ends the test: the first that is raised in this function; empty: in any."""


class AssertionAsk(StrictRecord):
    """Which assertion fails, with which values."""

    kind: Literal["assertion"] = "assertion"


class ReachAsk(StrictRecord):
    """Whether, and perhaps how often, execution comes to a line."""

    kind: Literal["reach"] = "reach"
    place: Location
    count: bool = False


class RootCauseAsk(StrictRecord):
    """Where a wrong value is first produced."""

    kind: Literal["root_cause"] = "root_cause"


class PostFixAsk(StrictRecord):
    """Whether the test passes with a change made, and what an expression then is."""

    kind: Literal["post_fix"] = "post_fix"
    value: ValueAsk


Ask = Annotated[
    ValueAsk | ExceptionAsk | AssertionAsk | ReachAsk | RootCauseAsk | PostFixAsk,
    Field(discriminator="kind"),
]


class ValueTruth(StrictRecord):
    """A value as the debugger shows it."""

    kind: Literal["value"] = "value"
    type: str
    text: str


class ExceptionTruth(StrictRecord):
    """An exception and its origin."""

    kind: Literal["exception"] = "exception"
    type: str
    """As the debugger names it, perhaps with its module."""
    message: str
    origin: Location


class AssertionTruth(StrictRecord):
    """A failing assertion."""

    kind: Literal["assertion"] = "assertion"
    place: Location
    actual: ValueTruth
    expected: ValueTruth | None
    """None where the assertion compares with nothing."""


class ReachTruth(StrictRecord):
    """Whether a line is reached."""

    kind: Literal["reach"] = "reach"
    reached: bool
    count: int | None
    """How often; None where it was not counted to the end."""


class RootCauseTruth(StrictRecord):
    """What the gold patch changes, all of it executed code."""

    kind: Literal["root_cause"] = "root_cause"
    places: tuple[Location, ...] = Field(min_length=1)


class PostFixTruth(StrictRecord):
    """What a change comes to."""

    kind: Literal["post_fix"] = "post_fix"
    passes: bool
    value: ValueTruth


Truth = Annotated[
    ValueTruth | ExceptionTruth | AssertionTruth | ReachTruth | RootCauseTruth | PostFixTruth,
    Field(discriminator="kind"),
]


class Hints(StrictRecord):
    """What else the main agent gives (Debug2Fix, section 4.1)."""

    path: str | None = None
    lines: tuple[int, ...] = ()
    variables: tuple[str, ...] = ()


class Observation(StrictRecord):
    """A stop of the debugger that showed the answer."""

    place: str
    """`file:line`."""
    function: str
    hit: int
    """Which stop at that line, from 1; 0 where it never stopped there."""
    depth: int
    """Frames of the program below, 1 the outermost."""
    seen: str


class Difficulty(StrictRecord):
    """What makes it hard to answer."""

    hit: int = 1
    depth: int = 0
    stops: int = 0
    """Lines that execution came to in the whole run, as far as they were counted."""
    in_test: bool = False
    """Whether the place lies in the tests."""


class Question(StrictRecord):
    """One line of the file."""

    schema_version: int = SCHEMA_VERSION
    id: str = Field(min_length=1)
    benchmark: str
    instance_id: str
    instance_hash: str
    repository: str
    language: Language
    category: Category
    question: str = Field(min_length=1)
    test: str
    hints: Hints = Hints()
    patch: str = ""
    """Made in the workspace before the question is asked: a unified diff."""
    ask: Ask
    truth: Truth
    evidence: tuple[Observation, ...]
    difficulty: Difficulty = Difficulty()


class CategoryCard(StrictRecord):
    """The funnel of one category."""

    asked: int
    """Everything that could be asked at the stops."""
    dropped: Mapping[Drop, int]
    questions: int


class Card(StrictRecord):
    """How a file of questions was made."""

    benchmark: str
    instances: int
    without: Mapping[str, int]
    """Instances without a question, by reason."""
    questions: int
    categories: Mapping[Category, CategoryCard]
    seed: int
    per_category: int
    versions: Mapping[str, str]


def card_path(path: Path) -> Path:
    """Where the card of a file of questions lies."""
    return path.with_name(f"{path.name.removesuffix('.jsonl')}.card.json")


def write_questions(path: Path, questions: Sequence[Question], card: Card) -> None:
    """The card first: a file of questions without one never appears."""
    write_text(card_path(path), card.model_dump_json(indent=2) + "\n")
    write_text(path, "".join(f"{question.model_dump_json()}\n" for question in questions))


def read_questions(path: Path) -> list[Question]:
    """The lines of a file of questions. Raises ConfigError naming the line and the field."""
    how = "make it with `stepinto bench questions`, or set questions.output to where it lies"
    return read_lines(path, Question, how)
