"""Limits for a run's models: total dollars, and concurrent requests per model."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from collect.config import SAVED_NAME
from collect.errors import BudgetExhausted, ConfigError
from collect.quantities import dollars
from collect.store.atomic_files import write_text

SPENT = "spent.txt"
"""Dollars of all starts, including rollouts that were stopped or repeated."""
PARTS = (("eval", "questions"), ("eval",), ())
"""The folders of a run with their own rollouts, and so their own `SPENT`."""


class Slots(Protocol):
    """A limited number of concurrent requests, like a semaphore."""

    def acquire(self, *, timeout: float) -> bool:
        """Take a slot; returns whether one became free in time."""

    def release(self) -> None:
        """Release a slot."""


class Limits(Protocol):
    """Limits that models obey. Thread-safe."""

    def check(self) -> None:
        """Raises BudgetExhausted once the dollars are spent. Called before requests with a cost."""

    def add(self, dollars: float) -> None:
        """Add a request's cost."""

    def slots(self, model: str, limit: int) -> Slots:
        """Slots for `limit` concurrent requests of a model, by its config name."""

    def note(self) -> None:
        """Save the amount spent for the next start."""


class Budget:
    """The limits of one process. Thread-safe.

    Requests in progress when the limit is reached are still paid for, so a run can exceed it by the
    price of its concurrent requests.
    """

    def __init__(
        self, limit_dollars: float | None, spent: float = 0.0, folder: Path | None = None
    ) -> None:
        """`folder` stores the amount spent; None: nothing is stored. The amounts of the run's other
        folders count too.
        """
        self.limit_dollars = limit_dollars
        """None: no limit."""
        self._spent = spent
        self._elsewhere = 0.0 if folder is None else spent_elsewhere(folder)
        self._folder = folder
        self._lock = threading.Lock()
        self._noting = threading.Lock()

    @property
    def spent(self) -> float:
        """Dollars spent so far in this folder."""
        with self._lock:
            return self._spent

    def check(self) -> None:
        """See `Limits`."""
        spent = self.spent + self._elsewhere
        if self.limit_dollars is not None and spent >= self.limit_dollars:
            raise BudgetExhausted(
                f"the budget of {dollars(self.limit_dollars)} is spent ({dollars(spent)}); the "
                "same command goes on with a higher runner.budget_dollars"
            )

    def add(self, dollars: float) -> None:
        """See `Limits`."""
        with self._lock:
            self._spent += dollars

    def slots(self, model: str, limit: int) -> Slots:
        """See `Limits`."""
        return threading.BoundedSemaphore(limit)

    def note(self) -> None:
        """See `Limits`."""
        if self._folder is not None:
            with self._noting:
                write_text(self._folder / SPENT, f"{self.spent}\n")


def read_spent(folder: Path, of_rows: float = 0.0) -> float:
    """Spent by all starts on a folder, at least the sum of its rows. Raises ConfigError."""
    path = folder / SPENT
    if not path.is_file():
        return of_rows
    try:
        noted = float(path.read_text(encoding="utf-8"))
    except ValueError:
        noted = math.nan
    if not 0 <= noted < math.inf:
        raise ConfigError(
            f"{path} is not the dollars that a run has spent; write the number there, or remove "
            "the file, and only what its rows cost counts"
        )
    return max(of_rows, noted)


def spent_elsewhere(folder: Path) -> float:
    """The amount spent in the run's other folders."""
    here = folder.resolve()
    part = next(each for each in PARTS if _is_part(here, each))
    run = here.parents[len(part) - 1] if part else here
    return sum(read_spent(run.joinpath(*other)) for other in PARTS if other != part)


def _is_part(folder: Path, part: Sequence[str]) -> bool:
    """Whether the folder is that part of a run, and not a run of that name."""
    if not part:
        return True
    of_a_run = (folder.parents[len(part) - 1] / SAVED_NAME).is_file()
    return folder.parts[-len(part) :] == tuple(part) and of_a_run
