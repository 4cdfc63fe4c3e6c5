"""The queue of tasks that can run now."""

from __future__ import annotations

import heapq


class ReadyQueue:
    """Highest urgency first, then in the order of arrival.

    Removal only marks a name; its heap entry is dropped when it comes up.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, str]] = []
        self._removed: set[str] = set()
        self._count = 0

    def push(self, name: str, urgency: int) -> None:
        """Add a task."""
        self._drop_removed(name)
        self._count += 1
        heapq.heappush(self._heap, (-urgency, self._count, name))

    def remove(self, name: str) -> None:
        """Take a task out."""
        self._removed.add(name)

    def pop(self) -> str | None:
        """The next task, or None."""
        while self._heap:
            _, _, name = heapq.heappop(self._heap)
            if name not in self._removed:
                return name
            self._removed.discard(name)
        return None

    def __len__(self) -> int:
        return sum(name not in self._removed for _, _, name in self._heap)

    def _drop_removed(self, name: str) -> None:
        if name in self._removed:
            self._heap = [entry for entry in self._heap if entry[2] != name]
            heapq.heapify(self._heap)
            self._removed.discard(name)
