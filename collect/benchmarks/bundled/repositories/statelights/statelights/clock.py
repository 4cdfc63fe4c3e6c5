"""A clock that is moved by hand, and timers on it."""

from __future__ import annotations

import heapq
from typing import Callable, List, Tuple


class Timer:
    """One pending call. `owner` is the state that started it."""

    def __init__(self, due: float, owner: str, action: Callable[[], None]) -> None:
        self.due = due
        self.owner = owner
        self.action = action
        self.cancelled = False


class Clock:
    """Time in seconds, from 0 on."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: List[Tuple[float, int, Timer]] = []
        self._started = 0

    def start(self, delay: float, owner: str, action: Callable[[], None]) -> Timer:
        """Call `action` in `delay` seconds."""
        timer = Timer(self.now + delay, owner, action)
        self._started += 1
        heapq.heappush(self._queue, (timer.due, self._started, timer))
        return timer

    def cancel(self, owner: str) -> None:
        """Drop all timers of a state."""
        for _, _, timer in self._queue:
            if timer.owner == owner:
                timer.cancelled = True

    def pending(self) -> List[Timer]:
        return [timer for _, _, timer in sorted(self._queue) if not timer.cancelled]

    def advance(self, seconds: float) -> None:
        """Let time pass. Each timer sees its own due time as `now`."""
        end = self.now + seconds
        while self._queue and self._queue[0][0] <= end:
            due, _, timer = heapq.heappop(self._queue)
            if not timer.cancelled:
                self.now = due
                timer.action()
        self.now = end
