"""Debug events as the text that a model reads: one place, whatever the language.

The first line says what happened and keeps its shape, for others parse it:
`Paused at FILE:LINE in FUNCTION (REASON)`.
"""

from __future__ import annotations

from collections.abc import Iterable

from sandbox.debugger.records import (
    Action,
    Breakpoint,
    DebugEvent,
    ErrorKind,
    Frame,
    State,
    StopReason,
    Value,
)

INDENT = "    "


def render(event: DebugEvent) -> str:
    """The text of one event. Its parts come in one order, and empty ones are left out."""
    parts = [
        _headline(event),
        *_error_details(event),
        *_exception(event),
        *_returned(event),
        *_output(event),
        *_source(event),
        *_values(event),
        *_frames(event.frames),
        *_breakpoints(event),
        *(f"Note: {note}" for note in event.notes),
    ]
    return "\n".join(part for part in parts if part)


def _headline(event: DebugEvent) -> str:
    if event.stop_reason is StopReason.KILLED:
        return f"Killed: {event.error}"
    if event.stop_reason is StopReason.EXITED:
        crashed = f": {event.error}" if event.error_kind is ErrorKind.CRASHED else ""
        return f"Program ended with exit code {event.exit_code}{crashed}"
    if event.stop_reason is not None:
        return _stopped(event)
    if event.error_kind is not None:
        return f"Error ({event.error_kind}): {event.error}"
    return _done(event)


def _stopped(event: DebugEvent) -> str:
    place = f"{event.file}:{event.line} in {event.function}" if event.file else "no program frame"
    thread = f", in thread {event.thread}" if event.thread else ""
    return f"Paused at {place} ({_reason(event)}{thread})"


def _reason(event: DebugEvent) -> str:
    if event.stop_reason is StopReason.BREAKPOINT:
        # A start lists all breakpoints, also those that were not hit.
        hit = [point for point in event.breakpoints if point.line == event.line]
        return "breakpoint " + ", ".join(str(point.number) for point in hit or event.breakpoints)
    if event.stop_reason is StopReason.INTERRUPTED:
        return "interrupted: the time-out passed while it ran"
    if event.state is State.POST_MORTEM:
        return "post mortem: an exception ended the test"
    return str(event.stop_reason)


def _done(event: DebugEvent) -> str:
    if event.action is Action.RUN_CODE:
        return "Code ran without an exception."
    if event.action is Action.LOCALS:
        return "Local variables:" if event.values else "There are no local variables here."
    if event.action is Action.FIELDS:
        return "Fields:" if event.values else "It has no fields."
    if event.action is Action.STACK:
        return "Stack, innermost frame first:"
    if event.action is Action.EVALUATE:
        return ""
    return "Breakpoints:" if event.breakpoints else "No breakpoints are set."


def _error_details(event: DebugEvent) -> Iterable[str]:
    if event.allowed:
        yield "Allowed now: " + ", ".join(event.allowed)


def _exception(event: DebugEvent) -> Iterable[str]:
    if event.exception is not None:
        yield f"Exception: {event.exception.type}: {_indented(event.exception.message)}"


def _returned(event: DebugEvent) -> Iterable[str]:
    if event.return_value is not None:
        value = event.return_value
        yield f"Returned from {value.name}: {_indented(value.text)}  ({value.type})"


def _output(event: DebugEvent) -> Iterable[str]:
    if event.output:
        yield "Program output:"
        yield INDENT + _indented(event.output.rstrip("\n"))


def _source(event: DebugEvent) -> Iterable[str]:
    yield from event.source


def _values(event: DebugEvent) -> Iterable[str]:
    return (_value(value) for value in event.values)


def _value(value: Value) -> str:
    cut = ", cut" if value.truncated else ""
    return f"{value.name} = {_indented(value.text)}  ({value.type}{cut})"


def _frames(frames: Iterable[Frame]) -> Iterable[str]:
    for frame in frames:
        source = f" | {frame.source}" if frame.source else ""
        yield f"#{frame.index} {frame.file}:{frame.line} in {frame.function}{source}"


def _breakpoints(event: DebugEvent) -> Iterable[str]:
    if event.stop_reason is StopReason.BREAKPOINT:
        return (_breakpoint(point) for point in event.breakpoints if point.condition)
    lines = [_breakpoint(point) for point in event.breakpoints]
    heading = ["Breakpoints:"] if lines and event.stop_reason is not None else []
    return heading + lines


def _breakpoint(point: Breakpoint) -> str:
    """`2: shop/cart.py:42 in Cart.total if total > 3, temporary, hit 1 times`."""
    function = f" in {point.function}" if point.function else ""
    condition = f" if {point.condition}" if point.condition else ""
    temporary = ", temporary" if point.temporary else ""
    place = f"{point.file}:{point.line}"
    return f"{point.number}: {place}{function}{condition}{temporary}, hit {point.hits} times"


def _indented(text: str) -> str:
    """Lines after the first are set in, so that no value can look like a heading."""
    return text.replace("\n", "\n" + INDENT)
