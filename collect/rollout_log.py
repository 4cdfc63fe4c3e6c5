"""Where a rollout says what happens in it, event by event."""

from __future__ import annotations

from typing import Protocol

Fact = str | int | float | bool | None


class RolloutLog(Protocol):
    """Takes the events of one rollout; of that rollout's thread alone.

    Never raises: a rollout does not fail because of its log. What models, tools and programs said
    is no event, nor is any key.
    """

    def note(self, event: str, **facts: Fact) -> None:
        """Something has happened just now."""

    def flush(self) -> None:
        """Keep what was noted so far."""


class NoLog:
    """Keeps nothing."""

    def note(self, event: str, **facts: Fact) -> None:
        """See `RolloutLog`."""

    def flush(self) -> None:
        """See `RolloutLog`."""


NO_LOG = NoLog()
