"""Places and the roads between them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .regions import Regions


@dataclass(frozen=True)
class Road:
    """A road in one direction."""

    start: str
    end: str
    km: float
    kmh: float = 80.0
    kind: str = "road"


class Network:
    """A road network on a plane; x goes east, y goes north, both in km."""

    def __init__(self) -> None:
        self.version = 0
        self._places: dict[str, tuple[float, float]] = {}
        self._roads: dict[str, list[Road]] = {}
        self._closed: set[tuple[str, str]] = set()
        self._regions: Regions | None = None

    def add_place(self, name: str, x: float, y: float) -> None:
        """Add a place, or move it."""
        self._places[name] = (x, y)
        self._roads.setdefault(name, [])
        self._changed()

    def add_road(self, road: Road, one_way: bool = False) -> None:
        """Add a road, and its opposite direction unless it is one-way."""
        directions = [road] if one_way else [road, replace(road, start=road.end, end=road.start)]
        for each in directions:
            self._roads[each.start].append(each)
        self._changed()

    def close(self, start: str, end: str) -> None:
        """Close the roads from one place to another, in this direction."""
        self._closed.add((start, end))
        self._changed()

    def reopen(self, start: str, end: str) -> None:
        """Undo `close`."""
        self._closed.discard((start, end))
        self._changed()

    def position(self, place: str) -> tuple[float, float]:
        """Where a place is."""
        return self._places[place]

    def roads_from(self, place: str) -> list[Road]:
        """The open roads that leave a place."""
        return [road for road in self._roads[place] if (place, road.end) not in self._closed]

    def connected(self, a: str, b: str) -> bool:
        """Whether any roads lead from one place to the other, directions aside."""
        if self._regions is None:
            self._regions = Regions(self._places)
            for place in self._places:
                for road in self.roads_from(place):
                    self._regions.join(road.start, road.end)
        return self._regions.find(a) == self._regions.find(b)

    def _changed(self) -> None:
        self.version += 1
        self._regions = None
