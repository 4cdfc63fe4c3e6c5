"""What is driven, and how long it takes on a road."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Iterable

from .network import Road


@dataclass(frozen=True)
class Vehicle:
    """A kind of vehicle; it can't use the kinds of road that it avoids."""

    name: str
    top_kmh: float
    avoids: frozenset[str] = frozenset()


def hours(vehicle: Vehicle, road: Road) -> float:
    """Driving time; infinite on a road that the vehicle can't use."""
    if road.kind in vehicle.avoids:
        return float("inf")
    return road.km / min(road.kmh, vehicle.top_kmh)


def cost_functions(vehicles: Iterable[Vehicle]) -> dict[str, Callable[[Road], float]]:
    """For each vehicle, by name, a function from a road to hours."""
    costs: dict[str, Callable[[Road], float]] = {}
    for vehicle in vehicles:
        costs[vehicle.name] = lambda road, vehicle=vehicle: hours(vehicle, road)
    return costs
