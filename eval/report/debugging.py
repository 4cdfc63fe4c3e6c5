"""Debugger events as a page shows them: the source with its marks, and what was seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from sandbox.debugger import DebugEvent, StopReason, render

LISTED = re.compile(r"(?P<current>->)? *(?P<breakpoint>\*)? *(?P<number>\d+)(?: {2}(?P<text>.*))?")
"""A line of `DebugEvent.source`: `->` marks the current one, `*` a breakpoint."""


class Kind(StrEnum):
    """What an event is to its reader, and the class of its block."""

    STOP = "stop"
    ENDED = "ended"
    ERROR = "error"
    LOOK = "look"
    """An inspection, or a change of the breakpoints."""


@dataclass(frozen=True)
class SourceLine:
    """One line around a stop."""

    number: str
    """Empty where the debugger listed something else."""
    text: str
    current: bool = False
    breakpoint: bool = False


@dataclass(frozen=True)
class EventView:
    """One event."""

    event: DebugEvent
    kind: Kind
    headline: str
    source: tuple[SourceLine, ...]


def view_of(event: DebugEvent) -> EventView:
    """An event, ready to be shown."""
    headline = render(event).partition("\n")[0]
    return EventView(event, kind_of(event), headline, tuple(source_lines(event.source)))


def kind_of(event: DebugEvent) -> Kind:
    """What an event is to its reader."""
    if event.stop_reason in (StopReason.EXITED, StopReason.KILLED):
        return Kind.ENDED
    if event.stop_reason is not None:
        return Kind.STOP
    return Kind.ERROR if event.error_kind is not None else Kind.LOOK


def source_lines(lines: Iterable[str]) -> Iterator[SourceLine]:
    """The lines that a stop lists, their marks told apart."""
    for line in lines:
        found = LISTED.fullmatch(line)
        if found is None:
            yield SourceLine("", line)
        else:
            marks = bool(found["current"]), bool(found["breakpoint"])
            yield SourceLine(found["number"], found["text"] or "", *marks)
