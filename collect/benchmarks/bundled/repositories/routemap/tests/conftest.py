import pytest

from routemap import Network, Planner, Road, Vehicle

PLACES = {"Ash": (0, 0), "Birch": (10, 0), "Cedar": (10, 10), "Dell": (20, 0), "Elm": (30, 0)}


@pytest.fixture
def network():
    """Ash - Birch - Dell - Elm in a row, Cedar north of Birch, a slow track Ash - Dell."""
    network = Network()
    for name, (x, y) in PLACES.items():
        network.add_place(name, x, y)
    network.add_road(Road("Ash", "Dell", 20, kmh=20, kind="track"))
    network.add_road(Road("Ash", "Birch", 10))
    network.add_road(Road("Birch", "Cedar", 10))
    network.add_road(Road("Birch", "Dell", 10))
    network.add_road(Road("Dell", "Elm", 10, kmh=120, kind="motorway"))
    return network


@pytest.fixture
def planner(network):
    car = Vehicle("car", 160)
    truck = Vehicle("truck", 60, frozenset(["track"]))
    bicycle = Vehicle("bicycle", 20, frozenset(["motorway"]))
    return Planner(network, [car, truck, bicycle])
