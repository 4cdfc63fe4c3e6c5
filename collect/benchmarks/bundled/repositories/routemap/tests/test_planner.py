import pytest

from routemap import Network, Planner, Road, Unreachable, Vehicle


def test_fastest_route(planner):
    route = planner.route("Birch", "Elm", "car")
    assert route.places == ["Birch", "Dell", "Elm"]
    assert route.cost == pytest.approx(10 / 80 + 10 / 120)
    assert route.km == 20


def test_route_to_the_same_place(planner):
    assert planner.route("Ash", "Ash", "car").roads == ()


def test_routes_are_remembered(planner):
    assert planner.route("Ash", "Cedar", "car") is planner.route("Ash", "Cedar", "car")


def test_detour_around_a_closed_road(network, planner):
    planner.route("Ash", "Elm", "car")
    network.close("Birch", "Dell")
    assert planner.route("Ash", "Elm", "car").places == ["Ash", "Dell", "Elm"]


def test_avoided_road(planner):
    with pytest.raises(Unreachable, match="a bicycle can't get from Ash to Elm"):
        planner.route("Ash", "Elm", "bicycle")


def test_another_region(network, planner):
    network.add_place("Fir", 0, 10)
    with pytest.raises(Unreachable, match="different regions"):
        planner.route("Ash", "Fir", "car")


def test_trip_over_cedar(planner):
    trip = planner.trip(["Ash", "Cedar", "Birch"], "car")
    assert trip.places == ["Ash", "Birch", "Cedar", "Birch"]
    assert trip.cost == pytest.approx(30 / 80)


def test_trip_leaves_the_track_aside(planner):
    trip = planner.trip(["Ash", "Elm", "Dell"], "car")
    assert trip.places == ["Ash", "Birch", "Dell", "Elm", "Dell"]
    assert trip.cost == pytest.approx(20 / 80 + 20 / 120)


def test_fastest_vehicle(planner):
    name, trip = planner.fastest_vehicle(["Birch", "Dell", "Elm"])
    assert name == "car"
    assert trip.cost == pytest.approx(10 / 80 + 10 / 120)


def test_trip_of_a_single_stop(planner):
    assert planner.trip(["Ash"], "car").cost == 0


def test_no_vehicle_can(network, planner):
    network.add_place("Fir", 0, 10)
    with pytest.raises(Unreachable, match="no vehicle can make the trip Ash - Fir"):
        planner.fastest_vehicle(["Ash", "Fir"])


def test_nearest(planner):
    assert planner.nearest("Birch", ["Elm", "Cedar"], "car") == "Cedar"


def test_a_bridge_joins_two_islands():
    network = Network()
    for x, name in enumerate(["Reed", "Sedge", "Fern", "Heath", "Moss"]):
        network.add_place(name, x, 0)
    for start, end in [("Reed", "Sedge"), ("Reed", "Moss"), ("Fern", "Heath")]:
        network.add_road(Road(start, end, 1))
    planner = Planner(network, [Vehicle("car", 100)])
    with pytest.raises(Unreachable):
        planner.route("Reed", "Fern", "car")
    network.add_road(Road("Moss", "Heath", 1))
    assert planner.route("Reed", "Heath", "car").km == 2
    assert planner.route("Reed", "Fern", "car").km == 3
