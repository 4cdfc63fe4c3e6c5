"""Plans trips, and remembers the routes that it found."""

from __future__ import annotations

from typing import Iterable, Sequence

from .network import Network
from .search import Route, shortest
from .vehicles import Vehicle, cost_functions


class Unreachable(Exception):
    """There is no way from one place to another."""


class Planner:
    """Routes for a set of vehicles on a network that may change."""

    def __init__(self, network: Network, vehicles: Iterable[Vehicle]) -> None:
        self.network = network
        self._costs = cost_functions(vehicles)
        self._routes: dict[tuple[str, str, str], Route] = {}
        self._version = network.version

    def route(self, start: str, end: str, vehicle: str) -> Route:
        """The fastest route. Raises Unreachable."""
        if self._version != self.network.version:
            self._routes.clear()
            self._version = self.network.version
        key = (start, end, vehicle)
        if key not in self._routes:
            self._routes[key] = self._search(start, end, vehicle)
        return self._routes[key]

    def trip(self, stops: Sequence[str], vehicle: str) -> Route:
        """The fastest route through all stops in their order. Raises Unreachable."""
        trip = Route((), 0.0)
        for start, end in zip(stops, stops[1:]):
            trip = trip.then(self.route(start, end, vehicle))
        return trip

    def fastest_vehicle(self, stops: Sequence[str]) -> tuple[str, Route]:
        """The vehicle that makes a trip in the shortest time, and the trip."""
        trips = {}
        for vehicle in self._costs:
            try:
                trips[vehicle] = self.trip(stops, vehicle)
            except Unreachable:
                continue
        if not trips:
            raise Unreachable(f"no vehicle can make the trip {' - '.join(stops)}")
        name = min(trips, key=lambda vehicle: trips[vehicle].cost)
        return name, trips[name]

    def nearest(self, start: str, ends: Iterable[str], vehicle: str) -> str:
        """The place of several that is reached first."""
        return min(ends, key=lambda end: self.route(start, end, vehicle).cost)

    def _search(self, start: str, end: str, vehicle: str) -> Route:
        if not self.network.connected(start, end):
            raise Unreachable(f"{start} and {end} lie in different regions")
        route = shortest(self.network, start, end, self._costs[vehicle])
        if route is None:
            raise Unreachable(f"a {vehicle} can't get from {start} to {end}")
        return route
