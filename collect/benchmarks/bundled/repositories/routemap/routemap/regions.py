"""Sets of places that hang together (union-find)."""

from __future__ import annotations

from typing import Iterable


class Regions:
    """Starts with every place on its own."""

    def __init__(self, places: Iterable[str]) -> None:
        self._parent = {place: place for place in places}
        self._size = {place: 1 for place in self._parent}

    def find(self, place: str) -> str:
        """The place that stands for the whole region."""
        while self._parent[place] != place:
            self._parent[place] = self._parent[self._parent[place]]
            place = self._parent[place]
        return place

    def join(self, a: str, b: str) -> None:
        """Make one region of two."""
        large, small = self.find(a), self.find(b)
        if large == small:
            return
        if self._size[large] < self._size[small]:
            large, small = small, large
        self._parent[small] = large
        self._size[large] += self._size[small]

    def count(self) -> int:
        """How many regions there are."""
        return sum(place == parent for place, parent in self._parent.items())
