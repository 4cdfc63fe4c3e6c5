"""Finds the true answer to a question in a traced run, with the stops that showed it.

It depends only on the run, so that a second run in a fresh sandbox can confirm it.
"""

from __future__ import annotations

from dataclasses import dataclass

from collect.question_records import (
    AssertionAsk,
    AssertionTruth,
    ExceptionAsk,
    ExceptionTruth,
    Location,
    Observation,
    ReachAsk,
    ReachTruth,
    Truth,
    ValueAsk,
    ValueTruth,
)
from collect.questions.comparing import is_comparable, without_addresses
from collect.questions.program import Program
from collect.questions.tracing import Raise, Stop, Trace
from sandbox.debugger import Value

MAX_VALUE = 160
"""Maximum length of a value that is reasonable to repeat in an answer."""
MAX_SEEN = 300
ASSERTIONS = ("AssertionError", "AssertionFailedError", "ComparisonFailure", "Failed")
"""Exceptions of failing assertions; `Failed` is pytest's own."""
MAX_COUNT = 8
"""Maximum number of visits that is reasonable to count by continuing."""
TracedAsk = ValueAsk | ExceptionAsk | AssertionAsk | ReachAsk
"""Questions whose answers a run shows."""


@dataclass(frozen=True)
class Finding:
    """A true answer and where it was seen."""

    truth: Truth
    seen: tuple[Observation, ...]


def find(ask: TracedAsk, trace: Trace, program: Program) -> Finding | None:
    """The answer from a run, or None if there is no comparable one."""
    match ask:
        case ValueAsk():
            return _value(ask, trace)
        case ExceptionAsk(ends_test=True):
            return _raised(_ending(trace, program), program)
        case ExceptionAsk():
            own = (raised for raised in trace.raises if raised.file in program.modules)
            wanted = (raised for raised in own if ask.function in ("", raised.function))
            return _raised(next(wanted, None), program)
        case AssertionAsk():
            return _assertion(trace, program)
        case ReachAsk():
            return _reach(ask, trace)


def observed(stop: Stop, text: str) -> Observation:
    """A stop as evidence, without object addresses, which differ between runs."""
    return Observation(
        place=str(stop.statement.place),
        function=stop.statement.place.function,
        hit=stop.hit,
        depth=stop.depth,
        seen=without_addresses(text)[:MAX_SEEN],
    )


def _value(ask: ValueAsk, trace: Trace) -> Finding | None:
    stop = trace.visit(ask.place, ask.hit)
    if stop is not None and ask.after:
        stop = trace.next_in_frame(stop)
    value = stop.values.get(ask.expression) if stop is not None else None
    if stop is None or value is None or value.truncated or not _is_askable(value):
        return None
    seen = observed(stop, f"{ask.expression} = {value.text}")
    return Finding(ValueTruth(type=value.type, text=value.text), (seen,))


def _is_askable(value: Value) -> bool:
    return len(value.text) <= MAX_VALUE and is_comparable(value.text)


def _ending(trace: Trace, program: Program) -> Raise | None:
    """The exception post mortem, located at the innermost frame in the workspace."""
    if not trace.failed or trace.ending is None or trace.ending.exception is None:
        return None
    info = trace.ending.exception
    inside = [f for f in trace.frames if program.module(f.file) is not None]
    is_assertion = info.type.rpartition(".")[2] in ASSERTIONS
    if not inside or (inside[0].file in program.tests and is_assertion):
        return None
    frame = inside[0]
    return Raise(info.type, info.message, frame.file, frame.line, frame.function, len(inside))


def _raised(raised: Raise | None, program: Program) -> Finding | None:
    if raised is None:
        return None
    origin = _location(program, raised.file, raised.line, raised.function)
    truth = ExceptionTruth(type=raised.type, message=raised.message[:MAX_SEEN], origin=origin)
    text = f"{raised.type}: {raised.message}"[:MAX_SEEN]
    place = f"{raised.file}:{raised.line}"
    seen = Observation(place=place, function=raised.function, hit=0, depth=raised.depth, seen=text)
    return Finding(truth, (seen,))


def _location(program: Program, file: str, line: int, function: str) -> Location:
    """The statement at a line."""
    module = program.module(file)
    statement = module.at(line) if module is not None else None
    if statement is not None and statement.place.function == function:
        return statement.place
    return Location(file=file, line=line, last_line=line, function=function)


def _assertion(trace: Trace, program: Program) -> Finding | None:
    if trace.assertion is None:
        return None
    frame, sides = trace.assertion.frame, [trace.assertion.actual, trace.assertion.expected]
    values = [value for value in sides if value is not None]
    if not all(map(_is_askable, values)):
        return None
    actual, *expected = [ValueTruth(type=value.type, text=value.text) for value in values]
    truth = AssertionTruth(
        place=_location(program, frame.file, frame.line, frame.function),
        actual=actual,
        expected=expected[0] if expected else None,
    )
    text = ", ".join(f"{value.name} = {value.text}" for value in values)[:MAX_SEEN]
    place = f"{frame.file}:{frame.line}"
    seen = Observation(place=place, function=frame.function, hit=0, depth=1, seen=text)
    return Finding(truth, (seen,))


def _reach(ask: ReachAsk, trace: Trace) -> Finding | None:
    place = ask.place.file, ask.place.line
    hits = trace.hits[place]
    counted = place not in trace.capped and place not in trace.mixed
    if trace.ending is None or place not in trace.bound or not (hits or counted):
        return None
    if ask.count and (not counted or hits > MAX_COUNT):
        return None
    truth = ReachTruth(reached=hits > 0, count=hits if counted else None)
    first = trace.visit(ask.place)
    if first is not None:
        return Finding(truth, (observed(first, f"stopped here {hits} times"),))
    missed = Observation(
        place=str(ask.place), function=ask.place.function, hit=0, depth=0, seen="never stopped here"
    )
    return Finding(truth, (missed,))
