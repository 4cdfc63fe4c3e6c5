"""What a check is, and what it finds."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from train.preflight.rendered import RenderedRow

EXCERPT = 60
"""Characters of a text that a message quotes."""


class Verdict(StrEnum):
    """How a check came out."""

    PASSED = "passed"
    FAILED = "failed"
    WAIVED = "waived"
    """Failed, and the config says to train nevertheless."""
    NOT_CHECKED = "not checked"


class Finding(BaseModel):
    """One line of the report."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    check: str
    verdict: Verdict
    number: str
    """What was counted, of how many."""
    meaning: str
    """What it is for the training."""
    advice: str = ""
    """What to do where it failed or could not be checked."""

    @property
    def line(self) -> str:
        """The finding as one line of text; the advice only where it is needed."""
        said = f"{self.check}: {self.number}. {self.meaning}"
        needed = self.advice and self.verdict is not Verdict.PASSED
        return f"{said} {self.advice}" if needed else said


class Check(Protocol):
    """Looks at rows one after the other, and tells in the end what they had in common."""

    name: str
    """As findings and `train.waived_checks` call it."""
    every_row: bool
    """Whether it is cheap enough to look at every row; else it is shown a sample."""

    def add(self, row: RenderedRow) -> None:
        """Look at one row."""

    def finding(self) -> Finding:
        """What was found in the rows so far."""


def excerpt(text: str) -> str:
    """The beginning of a text, quoted."""
    return repr(text if len(text) <= EXCERPT else f"{text[:EXCERPT]}...")
