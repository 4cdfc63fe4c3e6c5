import pytest

from routemap.directions import directions, turn


@pytest.mark.parametrize(
    ("after", "expected"),
    [((2, 0), "straight on"), ((1, 1), "left"), ((1, -1), "right"), ((0, 0), "back")],
    ids=["straight", "left", "right", "back"],
)
def test_turn(after, expected):
    assert turn((0, 0), (1, 0), after) == expected


def test_directions(network, planner):
    route = planner.trip(["Ash", "Cedar"], "car")
    assert directions(network, route) == ["Ash to Birch, 10 km", "left to Cedar, 10 km"]


def test_directions_of_nowhere(network, planner):
    assert directions(network, planner.route("Ash", "Ash", "car")) == []


def test_directions_for_a_truck(network, planner):
    route = planner.route("Cedar", "Elm", "truck")
    assert directions(network, route) == [
        "Cedar to Birch, 10 km",
        "left to Dell, 10 km",
        "straight on to Elm, 10 km",
    ]
