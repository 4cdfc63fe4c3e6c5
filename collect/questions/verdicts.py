"""What an answer is worth, as a whole and fact by fact."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Why a fact, or a whole answer, is judged as it is."""

    RIGHT = "right"
    WRONG = "wrong"
    MISSING = "missing"
    """Not claimed at all."""
    SEVERAL = "several"
    """More than one answer is given to one question."""
    EVASIVE = "evasive"
    """It says that it does not know."""
    NO_ANSWER = "no_answer"
    """There is no well-formed answer block."""


@dataclass(frozen=True)
class Fact:
    """One fact that was asked for."""

    name: str
    true: str
    claimed: str
    reason: Reason

    @property
    def ok(self) -> bool:
        return self.reason is Reason.RIGHT


@dataclass(frozen=True)
class Verdict:
    """What an answer is worth."""

    reason: Reason
    facts: tuple[Fact, ...] = ()

    @property
    def correct(self) -> bool:
        return self.reason is Reason.RIGHT

    @property
    def share(self) -> float:
        """Of the facts, how many are right."""
        return sum(fact.ok for fact in self.facts) / len(self.facts) if self.facts else 0.0
