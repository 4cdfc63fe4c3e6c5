"""A file of runtime questions: one question per line, and a card that says how they were made.

The question (`Ask`) and the answer (`Truth`) are separate: an answerer may see the first, and only
the scorer reads the second.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from collect.benchmarks.base import Language
from collect.benchmarks.config import BenchmarkConfig
from collect.store.files import StrictRecord, read_lines

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
    fingerprint: str = ""
    """Hash of the bugs and of the settings."""


def read_questions(path: Path) -> list[Question]:
    """Read a question file. Raises ConfigError naming the line and the field."""
    how = "make it with `stepinto bench questions`, or set questions.output to where it lies"
    return read_lines(path, Question, how)


SOURCE_READER = "source_reader"
"""A value of `answer_with` instead of a model: the baseline that never runs the program."""
ANSWERING = {"answer_with", "answer_limit", "answer_shuffle_seed", "attempts", "output"}
"""Settings that don't affect which questions are made."""


class QuestionsConfig(StrictRecord):
    """Which bugs are asked about, how many questions, and who answers."""

    benchmark: BenchmarkConfig = BenchmarkConfig(name="bundled")
    per_category: int = Field(default=3, ge=0)
    """Maximum questions per category and bug."""
    limits: Mapping[Category, int] = {}
    """Maximum per bug for single categories: `{root_cause: 1}`."""
    max_tests: int = Field(default=2, ge=1)
    """Failing tests per bug that are run for questions, starting with the first."""
    wrong_patches: int = Field(default=1, ge=0)
    """Wrong patches per bug to ask about, in addition to the gold patch."""
    seed: int = 0
    """Decides the choice and the wording of questions."""
    test_timeout: float = Field(default=60.0, gt=0)
    """Seconds for one traced run of a test."""
    output: str | None = None
    """The question file; its card is written next to it. None: `questions.jsonl` in the run's
    folder.
    """
    answer_with: str | tuple[str, ...] = "oracle"
    """Who answers in `stepinto bench answer`: a model of `models`, or `source_reader`; or several
    of them in turn.
    """
    attempts: int = Field(default=1, ge=1, le=10_000)
    """Answers of each model to each question. They differ if the model samples: at temperature 0
    all would be equal.
    """
    answer_limit: int | None = Field(default=None, ge=1)
    """Answer at most this many questions, starting with the first."""
    answer_shuffle_seed: int | None = None
    """Shuffles the questions reproducibly, so that `answer_limit` draws from all bugs and
    categories. None: the file's order.
    """

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.output is not None and not self.output.endswith(".jsonl"):
            raise ValueError("output must end in .jsonl")
        if not self.answerers:
            raise ValueError("answer_with must name a model, or source_reader")
        return self

    @property
    def answerers(self) -> tuple[str, ...]:
        """All answerers, each once."""
        names = (self.answer_with,) if isinstance(self.answer_with, str) else self.answer_with
        return tuple(dict.fromkeys(names))

    def answered_by(self, name: str) -> Self:
        """A copy with a single answerer."""
        return self.model_copy(update={"answer_with": name})
