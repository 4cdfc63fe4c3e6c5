"""Limits for a run's models: total dollars, and concurrent requests per model."""

from __future__ import annotations

import math
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Protocol

from collect.config import ROUND, SAVED_NAME
from collect.errors import BudgetExhausted, ConfigError
from collect.quantities import dollars
from collect.store.files import write_text

SPENT = "spent.txt"
"""Dollars of all starts, including rollouts that were stopped or repeated."""
PARTS = (Path(), Path("eval"), Path("eval/questions"))
"""The folders of a run with their own rollouts, and so their own `SPENT`."""


class MachineTime:
    """The time that a machine works for this process's requests; those in progress at the same time
    share it evenly. Thread-safe.
    """

    def __init__(self) -> None:
        self._requests = 0
        self._share = 0.0
        """Seconds that a request would have been given if it had been in progress all the time."""
        self._at = 0.0
        self._lock = threading.Lock()

    def begin(self) -> float:
        """Note a request's begin; returns what `end` needs."""
        return self._count(1)

    def end(self, begun: float) -> float:
        """Note its end; returns its share in seconds."""
        return self._count(-1) - begun

    def _count(self, change: int) -> float:
        with self._lock:
            now = time.monotonic()
            if self._requests:
                self._share += (now - self._at) / self._requests
            self._at, self._requests = now, self._requests + change
            return self._share


MACHINES: defaultdict[str, MachineTime] = defaultdict(MachineTime)
"""The machines of servers, by address: several models of a run may be on one."""


class Slots(Protocol):
    """A limited number of concurrent requests, like a semaphore."""

    def acquire(self, *, timeout: float) -> bool:
        """Take a slot; returns whether one became free in time."""

    def release(self) -> None: ...


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
    """The limits of one process. See `Limits`.

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
        self.spent = spent
        """Dollars spent so far in this folder."""
        self._elsewhere = 0.0 if folder is None else spent_elsewhere(folder)
        self._folder = folder
        self._lock = threading.Lock()

    def check(self) -> None:
        spent = self.spent + self._elsewhere
        if self.limit_dollars is not None and spent >= self.limit_dollars:
            raise BudgetExhausted(
                f"the budget of {dollars(self.limit_dollars)} is spent ({dollars(spent)}); the "
                "same command goes on with a higher runner.budget_dollars"
            )

    def add(self, dollars: float) -> None:
        with self._lock:
            self.spent += dollars

    def slots(self, model: str, limit: int) -> Slots:
        return threading.BoundedSemaphore(limit)

    def note(self) -> None:
        if self._folder is not None:
            with self._lock:
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
    """The amount spent in the run's other folders, its rounds included."""
    here = folder.resolve()
    run = next((each for each in (here, *here.parents[:2]) if (each / SAVED_NAME).is_file()), here)
    if run.name.startswith(ROUND) and (run.parent / SAVED_NAME).is_file():
        run = run.parent
    runs = (run, *sorted(run.glob(f"{ROUND}*")))
    folders = (each / part for each in runs for part in PARTS)
    return sum(read_spent(each) for each in folders if each != here)
