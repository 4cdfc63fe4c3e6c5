"""What the preflight found: the report, and the refusal to train."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from collect.errors import ConfigError
from train.preflight.rendered import RenderedRow

# What a check is, and what it finds.


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


class Preflight(BaseModel):
    """Counts over all rows of the train split, for one tokenizer, template and length."""

    model_config = ConfigDict(extra="forbid")

    max_length: int
    rows: int = 0
    empty: int = 0
    """Rows without one trained token."""
    cut: int = 0
    """Rows longer than `max_length`, which lose their end."""
    lost: int = 0
    """Rows that lose all their trained tokens with it, and so are left out."""
    other_when_served: int = 0
    """Rows that the serving template renders differently."""
    tokens: int = 0
    """Of all rows as trained, after cutting."""
    trained_tokens: int = 0
    longest: int = 0
    """Tokens of the longest row before cutting."""
    first_empty: str | None = None
    """Conversation id."""
    untrained: int = 0
    """Rows all of whose turns are left out, which so are left out themselves."""
    looked_through: int = 0
    """Rows whose turns were each decoded and parsed; the rest was looked at as a whole."""
    pairs: int = 0
    """Where pairs are trained: so many are. Their two sides are rows, and the tokens are theirs."""
    pairs_left_out: int = 0
    """Pairs of which a side is too long, or has no token to train on."""
    findings: list[Finding] = []
    """One of each check."""

    @property
    def failures(self) -> list[Finding]:
        """What forbids training."""
        return [each for each in self.findings if each.verdict is Verdict.FAILED]

    def lines(self) -> Iterator[str]:
        """The report as text, a line for each check."""
        for each in self.findings:
            yield f"{each.verdict.upper():<11} {each.line}"

    def refuse_failures(self) -> None:
        """Raise ConfigError where training on these rows would teach nothing, or too little."""
        if self.failures:
            lines = "\n".join(f"  {each.line}" for each in self.failures)
            raise ConfigError(
                f"the training data fails {len(self.failures)} of {len(self.findings)} checks:\n"
                f"{lines}\nMend that, or name the checks in train.waived_checks to train "
                "nevertheless"
            )
