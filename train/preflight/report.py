"""What the checks of the preflight are, their report, and the refusal to train."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from collect.errors import ConfigError
from collect.store.record_lines import StrictRecord
from train.encoding import RenderedRow

EXCERPT = 60
"""Characters of a text that a message quotes."""


class Verdict(StrEnum):
    """The result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    WAIVED = "waived"
    """Failed, but the config says to train anyway."""
    NOT_CHECKED = "not checked"


class Finding(StrictRecord):
    """One line of the report."""

    check: str
    verdict: Verdict
    number: str
    """What was counted, and of how many."""
    meaning: str
    """What it means for the training."""
    advice: str = ""
    """What to do if it failed or could not be checked."""

    @property
    def line(self) -> str:
        """The finding as one line of text, with advice only if needed."""
        said = f"{self.check}: {self.number}. {self.meaning}"
        needed = self.advice and self.verdict is not Verdict.PASSED
        return f"{said} {self.advice}" if needed else said


class Check(ABC):
    """Checks rows one after the other, and reports on all of them at the end."""

    name: ClassVar[str]
    """Its name in findings and `train.waived_checks`."""
    meaning: ClassVar[str]
    every_row: ClassVar[bool] = False
    """Whether it is fast enough to check every row; otherwise it gets a sample."""

    def __init__(self) -> None:
        self.rows = 0
        self.faults = 0
        self.first = ""
        """The first fault."""

    @abstractmethod
    def add(self, row: RenderedRow) -> None:
        """Check one row."""

    @abstractmethod
    def finding(self) -> Finding:
        """The finding about all rows so far."""

    def note(self, fault: str) -> None:
        self.faults += 1
        self.first = self.first or fault

    def found(self, verdict: Verdict | None, number: str, advice: str) -> Finding:
        """A finding; with None for the verdict, the check failed if there are faults."""
        passed = Verdict.FAILED if self.faults else Verdict.PASSED
        return Finding(
            check=self.name,
            verdict=verdict or passed,
            number=number + (f"; the first: {self.first}" if self.first else ""),
            meaning=self.meaning,
            advice=advice,
        )


def excerpt(text: str) -> str:
    return repr(text if len(text) <= EXCERPT else f"{text[:EXCERPT]}...")


class Preflight(StrictRecord):
    """Counts over all rows of the train split, for one tokenizer, template and length."""

    max_length: int
    rows: int = 0
    empty: int = 0
    """Rows without any trained token."""
    cut: int = 0
    """Rows longer than `max_length`, which are truncated."""
    lost: int = 0
    """Rows left out because truncation would remove all their trained tokens."""
    other_when_served: int = 0
    """Rows that the serving template renders differently."""
    tokens: int = 0
    """Tokens of all rows as trained, after cutting."""
    trained_tokens: int = 0
    longest: int = 0
    """Tokens of the longest row before cutting."""
    first_empty: str | None = None
    """The conversation id of the first empty row."""
    untrained: int = 0
    """Rows left out because all their turns are."""
    looked_through: int = 0
    """Rows whose turns were each decoded and parsed; other rows were checked as a whole."""
    pairs: int = 0
    """Number of trained pairs, if pairs are trained. Each side counts as a row, and the tokens are
    those of both."""
    pairs_left_out: int = 0
    """Pairs with a side that is too long, or has no token to train on."""
    findings: list[Finding] = Field(default_factory=list)
    """One for each check."""

    @property
    def failures(self) -> list[Finding]:
        return [each for each in self.findings if each.verdict is Verdict.FAILED]

    def lines(self) -> Iterator[str]:
        """The report as text, one line per check."""
        for each in self.findings:
            yield f"{each.verdict.upper():<11} {each.line}"

    def refuse_failures(self) -> None:
        """Raise ConfigError if training on these rows would teach nothing, or too little."""
        if self.failures:
            lines = "\n".join(f"  {each.line}" for each in self.failures)
            raise ConfigError(
                f"the training data fails {len(self.failures)} of {len(self.findings)} checks:\n"
                f"{lines}\nMend that, or name the checks in train.waived_checks to train "
                "nevertheless"
            )
