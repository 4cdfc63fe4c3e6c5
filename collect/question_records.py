"""A file of runtime questions: one question per line, and a card that says how they were made.

The question (`Ask`) and the answer (`Truth`) are separate: an answerer may see the first, and only
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
    """Why a candidate is not asked."""

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
    """Last line of the statement, inclusive."""
    function: str = ""
    """Qualified name; empty at module level."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class ValueAsk(StrictRecord):
    """What value does an expression have when execution reaches a line?"""

    kind: Literal["value"] = "value"
    expression: str
    place: Location
    hit: int = Field(ge=1)
    """Which visit of the line, from 1."""
    after: bool = False
    """After the line has run instead of just before."""


class ExceptionAsk(StrictRecord):
    """Which exception is raised, and where?"""

    kind: Literal["exception"] = "exception"
    ends_test: bool
    """True: the exception that ends the test. False: the first that the program raises, handled or
    not.
    """
    function: str = ""
    """If it does not end the test: the first exception raised in this function; empty means in any.
    """


class AssertionAsk(StrictRecord):
    """Which assertion fails, and with which values?"""

    kind: Literal["assertion"] = "assertion"


class ReachAsk(StrictRecord):
    """Is a line reached, and optionally how often?"""

    kind: Literal["reach"] = "reach"
    place: Location
    count: bool = False


class RootCauseAsk(StrictRecord):
    """Where is a wrong value first produced?"""

    kind: Literal["root_cause"] = "root_cause"


class PostFixAsk(StrictRecord):
    """Does the test pass with a change, and what value does an expression then have?"""

    kind: Literal["post_fix"] = "post_fix"
    value: ValueAsk


Ask = Annotated[
    ValueAsk | ExceptionAsk | AssertionAsk | ReachAsk | RootCauseAsk | PostFixAsk,
    Field(discriminator="kind"),
]


class ValueTruth(StrictRecord):
    """A value as shown by the debugger."""

    kind: Literal["value"] = "value"
    type: str
    text: str


class ExceptionTruth(StrictRecord):
    kind: Literal["exception"] = "exception"
    type: str
    """As named by the debugger, possibly with its module."""
    message: str
    origin: Location


class AssertionTruth(StrictRecord):
    kind: Literal["assertion"] = "assertion"
    place: Location
    actual: ValueTruth
    expected: ValueTruth | None
    """None if the assertion has no expected value."""


class ReachTruth(StrictRecord):
    kind: Literal["reach"] = "reach"
    reached: bool
    count: int | None
    """How often; None if it was not counted to the end."""


class RootCauseTruth(StrictRecord):
    """The code that the gold patch changes; all of it is executed."""

    kind: Literal["root_cause"] = "root_cause"
    places: tuple[Location, ...] = Field(min_length=1)


class PostFixTruth(StrictRecord):
    kind: Literal["post_fix"] = "post_fix"
    passes: bool
    value: ValueTruth


Truth = Annotated[
    ValueTruth | ExceptionTruth | AssertionTruth | ReachTruth | RootCauseTruth | PostFixTruth,
    Field(discriminator="kind"),
]


class Hints(StrictRecord):
    """What else the main agent provides (Debug2Fix, section 4.1)."""

    path: str | None = None
    lines: tuple[int, ...] = ()
    variables: tuple[str, ...] = ()


class Observation(StrictRecord):
    """A debugger stop that showed the answer."""

    place: str
    """`file:line`."""
    function: str
    hit: int
    """Which stop at that line, from 1; 0 if it never stopped there."""
    depth: int
    """Number of the program's frames on the stack; 1 is the outermost."""
    seen: str


class Difficulty(StrictRecord):
    hit: int = 1
    depth: int = 0
    stops: int = 0
    """Executed lines in the whole run, as far as they were counted."""
    in_test: bool = False
    """Whether the place is in the tests."""


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
    """Unified diff applied to the workspace before the question is asked."""
    ask: Ask
    truth: Truth
    evidence: tuple[Observation, ...]
    difficulty: Difficulty = Difficulty()


class CategoryCard(StrictRecord):
    """The funnel of one category."""

    asked: int
    """Candidates found at the stops."""
    dropped: Mapping[Drop, int]
    questions: int


class Card(StrictRecord):
    """How a question file was made."""

    benchmark: str
    instances: int
    without: Mapping[str, int]
    """Number of instances without a question, by reason."""
    questions: int
    categories: Mapping[Category, CategoryCard]
    seed: int
    per_category: int
    versions: Mapping[str, str]


def card_path(path: Path) -> Path:
    """The path of a question file's card."""
    return path.with_name(f"{path.name.removesuffix('.jsonl')}.card.json")


def write_questions(path: Path, questions: Sequence[Question], card: Card) -> None:
    """Write the card first, so that a question file always has one."""
    write_text(card_path(path), card.model_dump_json(indent=2) + "\n")
    write_text(path, "".join(f"{question.model_dump_json()}\n" for question in questions))


def read_questions(path: Path) -> list[Question]:
    """Read a question file. Raises ConfigError naming the line and the field."""
    how = "make it with `stepinto bench questions`, or set questions.output to where it lies"
    return read_lines(path, Question, how)
