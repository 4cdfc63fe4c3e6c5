"""The cache that applications use."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Iterable

from .rules import TTLRules
from .tags import TagIndex
from .tiers import Item, Tiers


@dataclass
class Stats:
    """What happened so far."""

    hits: int = 0
    misses: int = 0
    dropped: int = 0


class Cache:
    """Two tiers, with time to live by key and invalidation by tag."""

    def __init__(
        self,
        front: int = 128,
        back: int = 1024,
        rules: TTLRules | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rules = rules or TTLRules()
        self.clock = clock
        self.stats = Stats()
        self._tags = TagIndex()
        self._tiers = Tiers(front, back, self._dropped)

    def put(self, key: str, value: Any, tags: Iterable[str] = (), ttl: float | None = None) -> None:
        """Keep a value for `ttl` seconds, or for as long as the rules say."""
        seconds = self.rules.seconds(key) if ttl is None else ttl
        self._tags.link(key, tags)
        self._tiers.put(key, Item(value, self.clock() + seconds))

    def get(self, key: str, fallback: Any = None) -> Any:
        """The value, or the fallback where there is none or it is stale."""
        item = self._tiers.get(key)
        if item is None or item.expires <= self.clock():
            self.stats.misses += 1
            return fallback
        self.stats.hits += 1
        return item.value

    def get_or_load(self, key: str, load: Callable[[str], Any], tags: Iterable[str] = ()) -> Any:
        """The value; where there is none, what `load` returns, kept under the rules."""
        missing = object()
        value = self.get(key, missing)
        if value is missing:
            value = load(key)
            self.put(key, value, tags)
        return value

    def delete(self, key: str) -> bool:
        """Forget a key; whether it was there."""
        self._tags.unlink(key)
        return self._tiers.delete(key)

    def invalidate(self, tag: str) -> int:
        """Forget all keys with a tag; how many."""
        return sum(self.delete(key) for key in self._tags.keys(tag))

    def layout(self) -> tuple[list[str], list[str]]:
        """The keys of the front and of the back, least recently used first."""
        return self._tiers.layout()

    def _dropped(self, key: str) -> None:
        self._tags.unlink(key)
        self.stats.dropped += 1
