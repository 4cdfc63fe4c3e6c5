"""What an answer states, and whether the conversation that gave it had seen that."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class ClaimKind(StrEnum):
    """What is claimed."""

    VALUE = "value"
    LOCATION = "location"
    """A file and a line, or a function."""
    EXCEPTION = "exception"
    """A type, or a message."""


class Support(StrEnum):
    """What a claim rests on."""

    OBSERVED = "observed"
    """A tool's answer or a debugger's event of the conversation shows it."""
    GIVEN = "given"
    """The task's text says it already: repeating it shows nothing."""
    UNGROUNDED = "ungrounded"


@dataclass(frozen=True)
class Claim:
    """One fact that a text states."""

    kind: ClaimKind
    text: str
    """The value, `file:line`, the function, the exception's type or its message."""
    name: str = ""
    """Of a value: the expression that is said to have it; empty where it is only quoted."""
    value: object = None
    """Of a value: as parsed."""
    quote: str = ""
    """Of a value that is given to a name: both, as they stand in the text."""
    file: str = ""
    line: int = 0
    """Of a location: 0 for a function."""

    def __str__(self) -> str:
        return f"{self.name} = {self.text}" if self.name else self.text


@dataclass(frozen=True)
class GroundedClaim:
    """A claim, and what it rests on."""

    kind: ClaimKind
    text: str
    grounded: Support
    where: int | None = None
    """Index of the message in which it was first observed."""
    from_test: bool = False
    """It was observed, and only in a test: in its frame, its source or its assertion's message."""


@dataclass(frozen=True)
class Grounding:
    """All claims of one answer."""

    claims: tuple[GroundedClaim, ...] = ()

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many claims rest on what, by `Support`."""
        supports = [claim.grounded for claim in self.claims]
        return {each.value: supports.count(each) for each in Support}

    @property
    def score(self) -> float | None:
        """Share of the claims that were observed, those given aside; None where there are none."""
        seen, unseen = self.counts[Support.OBSERVED], self.counts[Support.UNGROUNDED]
        return seen / (seen + unseen) if seen + unseen else None
