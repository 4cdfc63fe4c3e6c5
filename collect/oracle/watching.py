"""What a failing test does at the lines of possible patches, measured once in the debugger."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from enum import StrEnum, auto

from sandbox.debugger import Action, BreakpointRequest, Debugger, Launch

TIMEOUT = 60.0
"""Seconds for one run of the test; what it had not reached by then counts as not reached."""


@dataclass(frozen=True)
class Line:
    """A line that may run, with an expression that is true where a change of it matters."""

    path: str
    number: int
    differs: str = ""

    @property
    def place(self) -> tuple[str, int]:
        return self.path, self.number


class Kind(StrEnum):
    """What the test does at a line, the best suspects first."""

    CHANGES = auto()
    """It comes there while the original and the changed statement compute different values."""
    REACHED = auto()
    """It comes there."""
    ELSEWHERE = auto()


@dataclass
class Reached:
    """What one run of a failing test has reached."""

    order: dict[tuple[str, int], int] = field(default_factory=dict)
    """Files and lines, with their place in the order in which they were first reached."""
    changing: set[Line] = field(default_factory=set)
    """Lines that were reached while their expression was true."""

    def kind(self, line: Line) -> Kind:
        if line in self.changing:
            return Kind.CHANGES
        return Kind.REACHED if line.place in self.order else Kind.ELSEWHERE


def watch(debugger: Debugger, test: str, lines: Iterable[Line]) -> Reached:
    """Run the test and stop at each line once when it is reached, and once when its expression is
    true. Nothing is reached if the test can't be debugged."""
    found = Reached()
    wanted = set(lines)
    points = dict.fromkeys(
        BreakpointRequest(
            file=line.path, line=line.number, condition=condition or None, temporary=True
        )
        for line in sorted(wanted, key=astuple)
        for condition in ("", line.differs)
    )
    deadline = time.monotonic() + TIMEOUT
    event = debugger.start(Launch(test, tuple(points), stop_at_entry=False))
    while event.stops_program and event.hit and time.monotonic() < deadline:
        found.order.setdefault((event.file or "", event.line or 0), len(found.order))
        for point in event.hit:
            line = Line(point.file, point.line, point.condition or "")
            # A condition that can't be evaluated stops, too.
            if line in wanted and point.condition:
                values = debugger.evaluate(point.condition).values
                found.changing |= {line for value in values if value.text.lower() == "true"}
        left = max(deadline - time.monotonic(), 0.1)
        event = debugger.control(Action.CONTINUE, timeout=left)
    return found
