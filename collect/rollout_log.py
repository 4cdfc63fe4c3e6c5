"""Logs a rollout's events."""

from __future__ import annotations

from typing import Protocol

Fact = str | int | float | bool | None


class RolloutLog(Protocol):
    """Takes the events of one rollout, in that rollout's thread only.

    Never raises: a rollout must not fail because of its log. Events contain no text from models,
    tools or programs, and no keys.
    """

    def note(self, event: str, **facts: Fact) -> None:
        """Record an event with the current time."""

    def flush(self) -> None:
        """Write the events so far."""


class NoLog:
    """Discards events."""

    def note(self, event: str, **facts: Fact) -> None:
        """See `RolloutLog`."""

    def flush(self) -> None:
        """See `RolloutLog`."""


NO_LOG = NoLog()
