"""Two LRU tiers: a small one in front of a larger one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

from .lru import LRU


@dataclass(frozen=True)
class Item:
    """A value and the moment from which on it is stale."""

    value: Any
    expires: float


class Tiers:
    """Every key is in one tier at most.

    What the front evicts goes to the back; what the back evicts is gone, and `on_drop` hears of it.
    """

    def __init__(self, front: int, back: int, on_drop: Callable[[str], None]) -> None:
        self._front = LRU(front, self._demote)
        self._back = LRU(back, lambda key, item: on_drop(key))

    def get(self, key: str) -> Item | None:
        """The item, in the front from now on."""
        item = self._front.get(key)
        if item is not None:
            return item
        item = self._back.peek(key)
        if item is not None:
            self._promote(key, item)
        return item

    def put(self, key: str, item: Item) -> None:
        """Set an item in the front."""
        self._back.delete(key)
        self._front.put(key, item)

    def delete(self, key: str) -> bool:
        """Forget a key; whether it was there."""
        in_front = self._front.delete(key)
        return self._back.delete(key) or in_front

    def layout(self) -> tuple[list[str], list[str]]:
        """The keys of the front and of the back, least recently used first."""
        return self._front.keys(), self._back.keys()

    def _promote(self, key: str, item: Item) -> None:
        self._back.delete(key)
        self._front.put(key, item)

    def _demote(self, key: str, item: Item) -> None:
        self._back.put(key, item)
