"""Which keys carry which tags."""

from __future__ import annotations

from typing import Iterable


class TagIndex:
    """Looks keys up by tag."""

    def __init__(self) -> None:
        self._tags: dict[str, frozenset[str]] = {}
        self._keys: dict[str, set[str]] = {}

    def link(self, key: str, tags: Iterable[str]) -> None:
        """Give a key its tags, in place of those it had."""
        self.unlink(key)
        self._tags[key] = frozenset(tags)
        for tag in self._tags[key]:
            self._keys.setdefault(tag, set()).add(key)

    def unlink(self, key: str) -> None:
        """Take all tags from a key."""
        for tag in self._tags.pop(key, ()):
            self._keys[tag].discard(key)
            if not self._keys[tag]:
                del self._keys[tag]

    def keys(self, tag: str) -> list[str]:
        """The keys that carry a tag, sorted."""
        return sorted(self._keys.get(tag, ()))

    def tags(self, key: str) -> frozenset[str]:
        """The tags of a key."""
        return self._tags.get(key, frozenset())
