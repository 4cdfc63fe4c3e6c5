"""What a run's models may use: dollars all together, and requests at once each."""

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
"""Dollars of all starts, those of rollouts that were stopped or tried again included."""
PARTS = (("eval", "questions"), ("eval",), ())
"""The folders of a run that have rollouts of their own, and so each their `SPENT`."""


class Slots(Protocol):
    """A limited number of requests at once, as a semaphore has them."""

    def acquire(self, *, timeout: float) -> bool:
        """Take one; whether there was one in this time."""

    def release(self) -> None:
        """Give it back."""


class Limits(Protocol):
    """What models keep to. Thread-safe."""

    def check(self) -> None:
        """Raises BudgetExhausted once the dollars are spent. Called before requests that cost."""

    def add(self, dollars: float) -> None:
        """Count what a request cost."""

    def slots(self, model: str, limit: int) -> Slots:
        """So many requests at once for a model, by its name in the config."""

    def note(self) -> None:
        """Keep what was spent so far, for the next start."""


class Budget:
    """The limits of one process. Thread-safe.

    Requests that are under way when the limit is reached are still paid for, so that a run can end
    above it by the price of as many requests as ran at once.
    """

    def __init__(
        self, limit_dollars: float | None, spent: float = 0.0, folder: Path | None = None
    ) -> None:
        """`folder` is where it is noted what was spent; None: nowhere. What the other folders of
        the same run have spent until now counts as well."""
        self.limit_dollars = limit_dollars
        """None: no limit."""
        self._spent = spent
        self._elsewhere = 0.0 if folder is None else spent_elsewhere(folder)
        self._folder = folder
        self._lock = threading.Lock()
        self._noting = threading.Lock()

    @property
    def spent(self) -> float:
        """Dollars so far, of this folder."""
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
    """What all starts on a folder have spent: at least what its rows did. Raises ConfigError."""
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
    """What the other folders of the same run have spent."""
    here = folder.resolve()
    part = next(each for each in PARTS if _is_part(here, each))
    run = here.parents[len(part) - 1] if part else here
    return sum(read_spent(run.joinpath(*other)) for other in PARTS if other != part)


def _is_part(folder: Path, part: Sequence[str]) -> bool:
    """Whether it is that part of a run, and no run that is called so."""
    if not part:
        return True
    of_a_run = (folder.parents[len(part) - 1] / SAVED_NAME).is_file()
    return folder.parts[-len(part) :] == tuple(part) and of_a_run
