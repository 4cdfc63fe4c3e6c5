from routemap import Network, Road
from routemap.regions import Regions


def test_roads_go_both_ways(network):
    assert [road.end for road in network.roads_from("Cedar")] == ["Birch"]


def test_one_way(network):
    network.add_place("Fir", 0, 10)
    network.add_road(Road("Cedar", "Fir", 10), one_way=True)
    assert network.roads_from("Fir") == []
    assert network.connected("Fir", "Elm")


def test_close_and_reopen(network):
    network.close("Cedar", "Birch")
    assert network.roads_from("Cedar") == []
    network.reopen("Cedar", "Birch")
    assert len(network.roads_from("Cedar")) == 1


def test_every_change_has_a_version(network):
    before = network.version
    network.close("Ash", "Birch")
    assert network.version == before + 1


def test_a_lonely_place(network):
    network.add_place("Fir", 0, 10)
    assert not network.connected("Fir", "Ash")
    assert network.connected("Cedar", "Elm")


def test_regions_of_a_row():
    regions = Regions("abcd")
    assert regions.count() == 4
    regions.join("a", "b")
    regions.join("a", "c")
    assert regions.count() == 2
    assert regions.find("b") == regions.find("c")
    assert regions.find("a") != regions.find("d")


def test_joining_twice_changes_nothing():
    regions = Regions("ab")
    regions.join("a", "b")
    regions.join("b", "a")
    assert regions.count() == 1


def test_empty_network():
    network = Network()
    network.add_place("Ash", 0, 0)
    assert network.connected("Ash", "Ash")
