"""A mapping of bounded size."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Callable, Hashable


def _ignore(key: Hashable, value: Any) -> None:
    """The default for `on_evict`."""


class LRU:
    """Keeps the `capacity` items that were used last.

    `on_evict` is called with what had to go for want of room, and only with that.
    """

    def __init__(self, capacity: int, on_evict: Callable[[Hashable, Any], None] = _ignore) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1, not {capacity}")
        self.capacity = capacity
        self.on_evict = on_evict
        self._items: OrderedDict[Hashable, Any] = OrderedDict()

    def get(self, key: Hashable) -> Any:
        """The value, now the last used one; None where there is none."""
        if key not in self._items:
            return None
        self._items.move_to_end(key)
        return self._items[key]

    def peek(self, key: Hashable) -> Any:
        """The value, without using it; None where there is none."""
        return self._items.get(key)

    def put(self, key: Hashable, value: Any) -> None:
        """Set a value, and evict the least recently used one if need be."""
        self._items[key] = value
        self._items.move_to_end(key)
        while len(self._items) > self.capacity:
            self.on_evict(*self._items.popitem(last=False))

    def delete(self, key: Hashable) -> bool:
        """Forget a key; whether it was there."""
        return self._items.pop(key, None) is not None

    def keys(self) -> list[Hashable]:
        """All keys, least recently used first."""
        return list(self._items)

    def __len__(self) -> int:
        return len(self._items)
