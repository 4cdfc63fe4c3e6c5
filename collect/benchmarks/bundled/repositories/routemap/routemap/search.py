"""Shortest routes (Dijkstra)."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Callable

from .network import Network, Road


@dataclass(frozen=True)
class Route:
    """Roads in a row and what they cost."""

    roads: tuple[Road, ...]
    cost: float

    @property
    def places(self) -> list[str]:
        """All places on the way, both ends included."""
        return [road.start for road in self.roads[:1]] + [road.end for road in self.roads]

    @property
    def km(self) -> float:
        """Length of the way."""
        return sum(road.km for road in self.roads)

    def then(self, other: Route) -> Route:
        """This route, with another one after it."""
        return Route(self.roads + other.roads, self.cost + other.cost)


def shortest(network: Network, start: str, end: str, cost: Callable[[Road], float]) -> Route | None:
    """The cheapest route, None where there is none."""
    best = {start: 0.0}
    arrival: dict[str, Road] = {}
    settled: set[str] = set()
    heap = [(0.0, start)]
    while heap:
        so_far, place = heapq.heappop(heap)
        if place == end:
            return Route(_trace(arrival, start, end), so_far)
        if place in settled:
            continue
        settled.add(place)
        for road in network.roads_from(place):
            total = so_far + cost(road)
            if total < best.get(road.end, float("inf")):
                best[road.end] = total
                arrival[road.end] = road
                heapq.heappush(heap, (total, road.end))
    return None


def _trace(arrival: dict[str, Road], start: str, end: str) -> tuple[Road, ...]:
    roads = []
    while end != start:
        roads.append(arrival[end])
        end = arrival[end].start
    return tuple(reversed(roads))
