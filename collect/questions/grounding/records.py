"""The claims of an answer, and whether its conversation had observed them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class ClaimKind(StrEnum):
    VALUE = "value"
    LOCATION = "location"
    """A file and a line, or a function."""
    EXCEPTION = "exception"
    """A type, or a message."""


class Support(StrEnum):
    """The evidence for a claim."""

    OBSERVED = "observed"
    """A tool answer or debugger event of the conversation shows it."""
    GIVEN = "given"
    """The task's text contains it, so repeating it proves nothing."""
    UNGROUNDED = "ungrounded"


@dataclass(frozen=True)
class Claim:
    """One fact that a text states."""

    kind: ClaimKind
    text: str
    """The value, `file:line`, the function, the exception's type or its message."""
    name: str = ""
    """For a value: the expression that is said to have it; empty if it is only quoted."""
    value: object = None
    """For a value: parsed."""
    quote: str = ""
    """For a value given to a name: both as written in the text."""
    file: str = ""
    line: int = 0
    """For a location: 0 for a function."""

    def __str__(self) -> str:
        return f"{self.name} = {self.text}" if self.name else self.text


@dataclass(frozen=True)
class GroundedClaim:
    """A claim and its evidence."""

    kind: ClaimKind
    text: str
    grounded: Support
    where: int | None = None
    """Index of the message that first showed it."""
    from_test: bool = False
    """Whether it was observed only in a test: in its frame, source or assertion message."""


@dataclass(frozen=True)
class Grounding:
    """All claims of one answer."""

    claims: tuple[GroundedClaim, ...] = ()

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of claims by `Support`."""
        supports = [claim.grounded for claim in self.claims]
        return {each.value: supports.count(each) for each in Support}

    @property
    def score(self) -> float | None:
        """Share of observed claims, not counting given ones; None if there are none."""
        seen, unseen = self.counts[Support.OBSERVED], self.counts[Support.UNGROUNDED]
        return seen / (seen + unseen) if seen + unseen else None
