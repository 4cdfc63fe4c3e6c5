"""Finds the true answer to a question in a traced run, with the stops that showed it.

It depends only on the run, so that a second run in a fresh sandbox can confirm it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
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
    RootCauseTruth,
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


@dataclass(frozen=True)
class Finding:
    """A true answer and where it was seen."""

    truth: Truth
    seen: tuple[Observation, ...]


def find(
    ask: ValueAsk | ExceptionAsk | AssertionAsk | ReachAsk, trace: Trace, program: Program
) -> Finding | None:
    """The answer from a run, or None if there is no comparable one."""
    match ask:
        case ValueAsk():
            return _value(ask, trace)
        case ExceptionAsk():
            return _exception(ask, trace, program)
        case AssertionAsk():
            return _assertion(trace, program)
        case ReachAsk():
            return _reach(ask, trace)


def agree(one: Truth, other: Truth) -> bool:
    """Whether two runs gave the same answer."""
    match one, other:
        case AssertionTruth(), AssertionTruth():
            pairs = [(one.actual, other.actual)]
            if one.expected is not None and other.expected is not None:
                pairs.append((one.expected, other.expected))
            return one.place == other.place and all(agree(a, b) for a, b in pairs)
        case RootCauseTruth(), RootCauseTruth():
            return True
    return one == other


def entries(name: str, value: Value) -> Iterator[Value]:
    """The entries of a dict, by the expression that reads each: `self.stock['jam']`."""
    if value.type != "dict" or value.truncated or len(value.text) > 2000:
        return
    try:
        node = ast.parse(value.text, mode="eval").body
    except (SyntaxError, ValueError):
        return
    if not isinstance(node, ast.Dict):
        return
    for key, item in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str | int):
            kind = type(item.value).__name__ if isinstance(item, ast.Constant) else ""
            yield Value(f"{name}[{key.value!r}]", kind, ast.unparse(item))


def values_at(stop: Stop) -> Mapping[str, Value]:
    """All values seen at a stop, by expression."""
    seen = {**stop.locals, **stop.fields}
    inside = [entry for name, value in seen.items() for entry in entries(name, value)]
    return {**seen, **{entry.name: entry for entry in inside}}


def next_in_frame(stop: Stop, trace: Trace) -> Stop | None:
    """The next stop of the same call; None if unknown or if there is none."""
    position = trace.position(stop.statement.place, stop.hit)
    for other in trace.stops[position + 1 :] if position is not None else ():
        if other.depth < stop.depth:
            return None
        if other.depth == stop.depth:
            here, there = stop.statement.place, other.statement.place
            same = (here.file, here.function) == (there.file, there.function)
            return other if same else None
    return None


def _value(ask: ValueAsk, trace: Trace) -> Finding | None:
    position = trace.position(ask.place, ask.hit)
    stop = trace.stops[position] if position is not None else None
    if stop is not None and ask.after:
        stop = next_in_frame(stop, trace)
    value = values_at(stop).get(ask.expression) if stop is not None else None
    if stop is None or value is None or value.truncated or len(value.text) > MAX_VALUE:
        return None
    if not is_comparable(value.text):
        return None
    seen = observed(stop, f"{ask.expression} = {value.text}")
    return Finding(ValueTruth(type=value.type, text=value.text), (seen,))


def observed(stop: Stop, text: str) -> Observation:
    """A stop as evidence, without object addresses, which differ between runs."""
    return Observation(
        place=str(stop.statement.place),
        function=stop.statement.place.function,
        hit=stop.hit,
        depth=stop.depth,
        seen=without_addresses(text)[:MAX_SEEN],
    )


def _exception(ask: ExceptionAsk, trace: Trace, program: Program) -> Finding | None:
    if ask.ends_test:
        return _ending(trace, program)
    own = (raised for raised in trace.raises if raised.file in program.modules)
    wanted = (raised for raised in own if ask.function in ("", raised.function))
    first = next(wanted, None)
    return None if first is None else _raised(first, program)


def _ending(trace: Trace, program: Program) -> Finding | None:
    """The exception post mortem, located at the innermost frame in the workspace."""
    if not trace.failed or trace.ending is None or trace.ending.exception is None:
        return None
    info = trace.ending.exception
    inside = [f for f in trace.frames if program.module(f.file) is not None]
    is_assertion = info.type.rpartition(".")[2] in ASSERTIONS
    if not inside or (inside[0].file in program.tests and is_assertion):
        return None
    frame = inside[0]
    origin = Raise(info.type, info.message, frame.file, frame.line, frame.function, len(inside))
    return _raised(origin, program)


def _raised(raised: Raise, program: Program) -> Finding:
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
    seen = trace.assertion
    if seen is None or len(seen.actual.text) > MAX_VALUE or not is_comparable(seen.actual.text):
        return None
    expected = seen.expected
    if expected is not None and (
        len(expected.text) > MAX_VALUE or not is_comparable(expected.text)
    ):
        return None
    truth = AssertionTruth(
        place=_location(program, seen.file, seen.line, seen.function),
        actual=ValueTruth(type=seen.actual.type, text=seen.actual.text),
        expected=ValueTruth(type=expected.type, text=expected.text) if expected else None,
    )
    compared = f", {expected.name} = {expected.text}" if expected else ""
    text = f"{seen.actual.name} = {seen.actual.text}{compared}"
    place = f"{seen.file}:{seen.line}"
    found = Observation(place=place, function=seen.function, hit=0, depth=1, seen=text[:MAX_SEEN])
    return Finding(truth, (found,))


def _reach(ask: ReachAsk, trace: Trace) -> Finding | None:
    place = ask.place.file, ask.place.line
    if trace.ending is None or place not in trace.bound:
        return None
    hits = trace.hits[place]
    counted = place not in trace.capped and place not in trace.mixed
    if not hits and not counted:
        return None
    if ask.count and (not counted or hits > MAX_COUNT):
        return None
    truth = ReachTruth(reached=hits > 0, count=hits if counted else None)
    first = trace.position(ask.place)
    if first is not None:
        return Finding(truth, (observed(trace.stops[first], f"stopped here {hits} times"),))
    missed = Observation(
        place=str(ask.place), function=ask.place.function, hit=0, depth=0, seen="never stopped here"
    )
    return Finding(truth, (missed,))
