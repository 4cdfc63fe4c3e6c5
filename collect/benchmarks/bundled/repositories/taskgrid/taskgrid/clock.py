"""Virtual time in whole milliseconds."""

from __future__ import annotations

import heapq
from typing import Callable


class Clock:
    """Moves only when told to, and runs what is due on the way."""

    def __init__(self) -> None:
        self.now = 0
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def call_later(self, delay: int, action: Callable[[], None]) -> None:
        """Run `action` once, `delay` milliseconds from now."""
        self._count += 1
        heapq.heappush(self._timers, (self.now + delay, self._count, action))

    def advance(self, amount: int) -> None:
        """Let `amount` milliseconds pass."""
        self._run_until(self.now + amount)

    def next_timer(self) -> bool:
        """Jump to the next timer and run it; False where none is left."""
        if not self._timers:
            return False
        self._run_until(self._timers[0][0])
        return True

    def _run_until(self, moment: int) -> None:
        while self._timers and self._timers[0][0] <= moment:
            due, _, action = heapq.heappop(self._timers)
            self.now = max(self.now, due)
            action()
        self.now = max(self.now, moment)
