"""Records passed between repair rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class FailingTest:
    """The test that a round works on: the first public one that fails."""

    id: str
    source: str
    """Its code with line numbers."""
    error: str
    """The test runner's output about it."""


@dataclass(frozen=True)
class CodeVersion:
    """A version of the program and how it fails."""

    number: int
    """1 is the given buggy code; each patch makes the next."""
    code: str
    failing: FailingTest


@dataclass(frozen=True)
class Patch:
    """The result of a round."""

    code: str | None
    """The whole program, or None if the model's reply has none."""
    plan: str = ""
    """The root cause and the repair plan made before it."""
    problem: str | None = None
    """Why there is no code; told to the model in the next round."""


@dataclass(frozen=True)
class Round:
    """One patch attempt."""

    number: int
    """From 1."""
    version: CodeVersion
    history: tuple[tuple[CodeVersion, Patch], ...] = ()
    """The earlier rounds: their start versions and patches."""


class RepairSystem(Protocol):
    """A system that produces patches in its own way."""

    def repair(self, current: Round) -> Patch:
        """The next version of the program.

        Raises RolloutError, RolloutStopped, SandboxError.
        """

    @property
    def exhausted(self) -> bool:
        """Whether its reasoning steps are used up, so that no further round may start."""
