"""What passes between the rounds of a repair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class FailingTest:
    """The test that a round is about: the first public one that fails."""

    id: str
    source: str
    """Its code, each line with its number."""
    error: str
    """What the test runner printed about it."""


@dataclass(frozen=True)
class CodeVersion:
    """One version of the program, and how it fails."""

    number: int
    """1 is the buggy code that was given; each patch makes the next."""
    code: str
    failing: FailingTest


@dataclass(frozen=True)
class Patch:
    """What a round came to."""

    code: str | None
    """The whole program; None where none could be read out of the model's reply."""
    plan: str = ""
    """The root cause and the repair that were proposed before it was written."""
    problem: str | None = None
    """Why there is no code, to tell the model next time."""


@dataclass(frozen=True)
class Round:
    """One patch attempt."""

    number: int
    """From 1."""
    version: CodeVersion
    history: tuple[tuple[CodeVersion, Patch], ...] = ()
    """The rounds before: what they started from, and their patches."""


class RepairSystem(Protocol):
    """One of the systems: it comes to a patch in its own way."""

    def repair(self, current: Round) -> Patch:
        """The next version of the program.

        Raises RolloutError, RolloutStopped, SandboxError.
        """

    @property
    def exhausted(self) -> bool:
        """Whether its reasoning steps are used up, so that no further round may begin."""
