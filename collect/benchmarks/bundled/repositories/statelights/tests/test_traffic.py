import pytest

from statelights import Clock
from statelights.traffic import traffic_light


@pytest.fixture()
def clock():
    return Clock()


@pytest.fixture()
def light(clock):
    return traffic_light(clock)


def test_lights_go_round(light, clock):
    clock.advance(15 + 20 + 3 + 15)
    assert light.log == ["red", "green", "yellow", "red", "green"]


def test_bus_extends_green(light, clock):
    clock.advance(15 + 18)
    assert light.send("bus")
    clock.advance(19)
    assert light.state == "green"
    clock.advance(1)
    assert light.state == "yellow"


def test_green_is_extended_twice_at_most(light, clock):
    clock.advance(15)
    assert [light.send("bus") for _ in range(3)] == [True, True, False]
    clock.advance(20 + 3 + 15)
    assert light.send("bus")


def test_each_extension_is_a_full_green(light, clock):
    clock.advance(15 + 10)
    light.send("bus")
    clock.advance(5)
    light.send("bus")
    clock.advance(19)
    assert light.log == ["red", "green", "green", "green"]


def test_pedestrian_ends_green(light, clock):
    clock.advance(16)
    light.send("pedestrian")
    assert light.state == "yellow"
    clock.advance(3)
    assert light.state == "red"
    clock.advance(14.5)
    assert light.state == "red"


def test_service_stops_the_round(light, clock):
    clock.advance(16)
    light.send("service")
    clock.advance(1000)
    assert light.log == ["red", "green", "dark"]


def test_service_has_its_own_states(light):
    light.send("service")
    light.send("blink")
    assert light.state == "blinking" and light.is_in("service")


def test_light_resumes_where_it_was_interrupted(light, clock):
    clock.advance(16)
    light.send("service")
    clock.advance(60)
    light.send("resume")
    assert light.state == "green"
    clock.advance(20)
    assert light.state == "yellow"


def test_light_can_be_restarted(light, clock):
    clock.advance(16)
    light.send("service")
    light.send("restart")
    assert light.state == "red"


def test_second_service_call_is_remembered_too(light, clock):
    clock.advance(16)
    light.send("service")
    light.send("resume")
    clock.advance(20 + 1)
    light.send("service")
    light.send("blink")
    light.send("resume")
    assert light.log[-1] == "yellow"
    assert light.is_in("day") and not light.is_in("service")
