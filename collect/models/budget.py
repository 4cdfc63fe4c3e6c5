"""The dollars that a run may spend, over all its models."""

from __future__ import annotations

import threading
from pathlib import Path

from collect.durable import write_text
from collect.errors import BudgetExhausted

SPENT = "spent.txt"
"""Dollars of all starts, those of rollouts that were stopped or tried again included."""


class Budget:
    """Thread-safe. Requests that are under way when the limit is reached are still paid for, so
    that a run can end above it by the price of as many requests as ran at once."""

    def __init__(self, limit_dollars: float | None, spent: float = 0.0) -> None:
        self.limit_dollars = limit_dollars
        """None: no limit."""
        self._spent = spent
        self._lock = threading.Lock()
        self._noting = threading.Lock()

    @property
    def spent(self) -> float:
        """Dollars so far."""
        with self._lock:
            return self._spent

    def check(self) -> None:
        """Raises BudgetExhausted once the limit is reached. Called before requests that cost."""
        spent = self.spent
        if self.limit_dollars is not None and spent >= self.limit_dollars:
            raise BudgetExhausted(
                f"the budget of ${self.limit_dollars:.2f} is spent (${spent:.4f}); "
                "raise it in the config to go on"
            )

    def add(self, dollars: float) -> None:
        """Count what a request cost."""
        with self._lock:
            self._spent += dollars

    def note(self, folder: Path) -> None:
        """Keep what was spent, for the next start on a folder."""
        with self._noting:
            write_text(folder / SPENT, f"{self.spent}\n")


def read_spent(folder: Path, of_rows: float = 0.0) -> float:
    """What all starts on a folder have spent: at least what its rows did."""
    path = folder / SPENT
    return max(of_rows, float(path.read_text()) if path.is_file() else 0.0)
