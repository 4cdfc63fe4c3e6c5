"""A traffic light with a request button, a night mode and a service mode."""

from __future__ import annotations

from .clock import Clock
from .definition import Definition
from .guards import at_least, negation
from .machine import Machine

GREEN, YELLOW, RED = 20.0, 3.0, 15.0
MAX_EXTENSIONS = 2


def _extend(context: dict) -> None:
    context["extensions"] += 1


def _reset(context: dict) -> None:
    context["extensions"] = 0


def build() -> Definition:
    """`day` goes round its lights and comes back to the one where it was interrupted."""
    light = Definition()
    light.state("day", initial="red", history=True)
    light.state("red", parent="day", on_entry=_reset)
    light.state("green", parent="day")
    light.state("yellow", parent="day")
    light.state("service", initial="dark")
    light.state("dark", parent="service")
    light.state("blinking", parent="service")
    light.after(RED, "red", "green")
    light.after(GREEN, "green", "yellow")
    light.after(YELLOW, "yellow", "red")
    too_many = at_least("extensions", MAX_EXTENSIONS)
    light.on("bus", "green", "green", guard=negation(too_many), action=_extend)
    light.on("pedestrian", "green", "yellow")
    light.on("service", "day", "service")
    light.on("blink", "dark", "blinking")
    light.on("resume", "service", "day")
    light.on("restart", "service", "red")
    return light


def traffic_light(clock: Clock) -> Machine:
    return Machine(build(), clock, {"extensions": 0})
