"""A route in words."""

from __future__ import annotations

from math import atan2, degrees

from .network import Network
from .search import Route


def turn(before: tuple[float, float], at: tuple[float, float], after: tuple[float, float]) -> str:
    """Straight on, left, right or back, when coming from one point and going to another."""
    coming = atan2(at[1] - before[1], at[0] - before[0])
    going = atan2(after[1] - at[1], after[0] - at[0])
    angle = (degrees(going - coming) + 180) % 360 - 180
    if abs(angle) < 30:
        return "straight on"
    if abs(angle) > 150:
        return "back"
    return "left" if angle > 0 else "right"


def directions(network: Network, route: Route) -> list[str]:
    """One line for each road of a route."""
    lines = []
    for position, road in enumerate(route.roads):
        if position == 0:
            lines.append(f"{road.start} to {road.end}, {road.km:g} km")
            continue
        previous = route.roads[position - 1]
        where = [network.position(place) for place in (previous.start, road.start, road.end)]
        lines.append(f"{turn(*where)} to {road.end}, {road.km:g} km")
    return lines
