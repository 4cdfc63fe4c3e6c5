"""A cache that writes to its store later."""

from __future__ import annotations

from typing import Any

from .lru import LRU
from .store import MemoryStore


class WriteBack:
    """Reads through an LRU; keeps changes until a flush, or until there are too many."""

    def __init__(self, store: MemoryStore, capacity: int, limit: int = 100) -> None:
        self.store = store
        self.limit = limit
        self._clean = LRU(capacity)
        self._dirty: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        """The newest value, written or not; None where there is none."""
        if key in self._dirty:
            return self._dirty[key]
        value = self._clean.get(key)
        if value is None:
            value = self.store.read(key)
            if value is not None:
                self._clean.put(key, value)
        return value

    def put(self, key: str, value: Any) -> None:
        """Change a value."""
        self._dirty[key] = value
        self._clean.delete(key)
        if len(self._dirty) > self.limit:
            self.flush()

    def flush(self) -> None:
        """Write all changes made so far. What listeners change meanwhile is left to the next."""
        for key in list(self._dirty):
            if key in self._dirty:
                self.store.write(key, self._dirty.pop(key))

    def close(self) -> None:
        """Flush until nothing is left to write."""
        while self._dirty:
            self.flush()

    @property
    def pending(self) -> list[str]:
        """The keys that a flush would write."""
        return sorted(self._dirty)
