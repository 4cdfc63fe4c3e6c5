"""Everything that could be asked about a run, before any rule drops some of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from collect.benchmarks.base import Instance
from collect.models.oracle.source import function_at, read_source
from collect.patches import changed_lines
from collect.questions.comparing import without_addresses
from collect.questions.program import Program
from collect.questions.records import (
    AssertionAsk,
    Category,
    ExceptionAsk,
    Location,
    ReachAsk,
    RootCauseTruth,
    ValueAsk,
)
from collect.questions.statements import Statement
from collect.questions.tracing import Stop, Trace
from collect.questions.truths import Finding, next_in_frame, observed, values_at

RECEIVERS = ("self", "cls")

Candidate = tuple[Category, "ValueAsk | ExceptionAsk | AssertionAsk | ReachAsk"]


def candidates(trace: Trace, program: Program) -> Iterator[Candidate]:
    """All that can be asked about one run, by category, but for what needs a patch."""
    for stop in trace.stops:
        yield from _values(stop, trace)
    yield from _reach(trace, program)
    if trace.failed:
        yield Category.ASSERTION, AssertionAsk()
        yield Category.EXCEPTION, ExceptionAsk(ends_test=True)
    yield Category.EXCEPTION, ExceptionAsk(ends_test=False)
    for function in dict.fromkeys(r.function for r in trace.raises if r.file in program.modules):
        yield Category.EXCEPTION, ExceptionAsk(ends_test=False, function=function)


def varying(trace: Trace) -> Mapping[tuple[Location, str], int]:
    """How many different values an expression had at a place."""
    seen: dict[tuple[Location, str], set[str]] = {}
    for stop in trace.stops:
        for name, value in values_at(stop).items():
            seen.setdefault((stop.statement.place, name), set()).add(value.text)
    return Counter({key: len(texts) for key, texts in seen.items()})


def root_cause(instance: Instance, trace: Trace, program: Program) -> RootCauseTruth | None:
    """The statements that the gold patch changes, where the failing test runs one of them."""
    if not instance.gold_patch:
        return None
    places: dict[Location, None] = {}
    for changed in changed_lines(instance.gold_patch):
        module = program.modules.get(changed.path)
        if module is None:
            continue
        source = read_source(changed.path, module.text.encode())
        around = function_at(source, changed.end) if source is not None else None
        name = around.name if around is not None else ""
        inside = [s for s in module.statements if _overlaps(s, changed.start, changed.end)]
        for statement in inside:
            if statement.place.function == name:
                places[statement.place] = None
        if not inside and name:
            place = Location(
                file=changed.path, line=changed.start, last_line=changed.end, function=name
            )
            places[place] = None
    functions = {(place.file, place.function) for place in places}
    return RootCauseTruth(places=tuple(places)) if functions & trace.entered else None


def root_cause_finding(truth: RootCauseTruth, first: Trace, second: Trace) -> Finding | None:
    """The root cause with the first stop in its function, and what two runs agree on there."""
    functions = {(place.file, place.function) for place in truth.places}
    for stop in first.stops:
        place = stop.statement.place
        if (place.file, place.function) in functions:
            position = second.position(place, stop.hit)
            again = second.stops[position].locals if position is not None else {}
            shown = [
                f"{name} = {stop.locals[name].text}"
                for name in stop.statement.used[:3]
                if name in stop.locals and name in again
                if without_addresses(stop.locals[name].text) == without_addresses(again[name].text)
            ]
            return Finding(truth, (observed(stop, "; ".join(shown)),))
    return None


def _overlaps(statement: Statement, start: int, end: int) -> bool:
    return statement.place.line <= end and statement.place.last_line >= start


def _values(stop: Stop, trace: Trace) -> Iterator[Candidate]:
    statement = stop.statement
    place = statement.place
    if not statement.once or (place.file, place.line) in trace.mixed:
        return
    names = [name for name in statement.used if name in stop.locals]
    for name in (each for each in names if each not in RECEIVERS):
        yield Category.LOCAL, ValueAsk(expression=name, place=place, hit=stop.hit)
    for name in _inside(stop, names):
        yield Category.ATTRIBUTE, ValueAsk(expression=name, place=place, hit=stop.hit)
    follower = next_in_frame(stop, trace)
    if len(statement.assigned) == 1 and follower is not None and _untouched(trace, place):
        name = statement.assigned[0]
        if name in follower.locals:
            yield (
                Category.LOCAL,
                ValueAsk(expression=name, place=place, hit=stop.hit, after=True),
            )


def _inside(stop: Stop, names: Sequence[str]) -> list[str]:
    """The attributes and entries of what the statement reads."""
    bases = (*stop.statement.attributes, *names)
    seen = values_at(stop)
    entries = [
        name for name in seen if name.endswith("]") and any(name.startswith(f"{b}[") for b in bases)
    ]
    fields = [name for name in stop.fields if "." in name]
    used = [name for name in stop.statement.attributes if name in stop.fields]
    return list(dict.fromkeys([*used, *entries, *fields]))


def _untouched(trace: Trace, place: Location) -> bool:
    """Whether no line of the function was given up on the way: else the next stop is not next."""
    return not any(
        stop.statement.place.function == place.function
        and (stop.statement.place.file, stop.statement.place.line) in trace.capped
        for stop in trace.stops
        if stop.statement.place.file == place.file
    )


def _reach(trace: Trace, program: Program) -> Iterator[Candidate]:
    """Every bound line of the modules that were executed, with and without its count."""
    executed = {file for file, _ in trace.hits}
    for path in sorted(executed):
        for statement in program.modules[path].statements:
            if (path, statement.place.line) in trace.bound:
                yield Category.REACHABILITY, ReachAsk(place=statement.place)
                if statement.once:
                    yield Category.REACHABILITY, ReachAsk(place=statement.place, count=True)
