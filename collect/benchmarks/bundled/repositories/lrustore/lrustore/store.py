"""A slow store, as far as this package needs one."""

from __future__ import annotations

from typing import Any, Callable


class MemoryStore:
    """A dictionary that counts writes and tells listeners of them."""

    def __init__(self, rows: dict[str, Any] | None = None) -> None:
        self.rows = dict(rows or {})
        self.writes = 0
        self._listeners: list[Callable[[str, Any], None]] = []

    def subscribe(self, listener: Callable[[str, Any], None]) -> None:
        """Call `listener` after each write."""
        self._listeners.append(listener)

    def read(self, key: str) -> Any:
        """The row, None where there is none."""
        return self.rows.get(key)

    def write(self, key: str, value: Any) -> None:
        """Set a row."""
        self.rows[key] = value
        self.writes += 1
        for listener in self._listeners:
            listener(key, value)
