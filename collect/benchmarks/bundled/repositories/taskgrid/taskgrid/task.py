"""Tasks and how they are retried."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Callable


class State(Enum):
    """Where a task stands."""

    WAITING = "waiting"
    READY = "ready"
    BACKOFF = "backoff"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"

    @property
    def final(self) -> bool:
        """True where nothing more will happen."""
        return self in (State.DONE, State.FAILED, State.SKIPPED)


@dataclass(frozen=True)
class RetryPolicy:
    """How often and when to try again. Times are in milliseconds."""

    attempts: int = 1
    delay: int = 1000
    factor: int = 2
    longest: int = 60_000

    def pause(self, failures: int) -> int:
        """Milliseconds to wait after so many failures."""
        return min(self.delay * self.factor ** (failures - 1), self.longest)


@dataclass
class Task:
    """One job. `run` is given the time in milliseconds and raises where it fails."""

    name: str
    run: Callable[[int], object]
    needs: tuple[str, ...] = ()
    priority: int = 0
    cost: int = 0
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    state: State = State.WAITING
    failures: int = 0
