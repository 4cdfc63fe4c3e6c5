"""Runs a test under the debugger, stops at every statement of the program, and records what is
seen; finds the questions about such runs and their true answers.

An answer depends only on the run, so that a second run in a fresh sandbox can confirm it.
"""

from __future__ import annotations

import ast
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from collect.benchmarks.base import Instance
from collect.code.source import changed_code, function_at, read_source
from collect.code.syntax import expression, is_pure
from collect.errors import InfrastructureFailure
from collect.question_records import (
    AssertionAsk,
    AssertionTruth,
    Category,
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
from collect.questions.comparing import is_comparable, same_text, without_addresses
from collect.questions.program import Program, PythonModule, Statement, sides_at
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    Debugger,
    ExceptionInfo,
    Frame,
    Launch,
    State,
    StopReason,
    Value,
)

MAX_STOPS = 600
"""Stops in a run, after which each line is stopped at only once more."""
MAX_HITS = 12
"""Stops at a line, after which its breakpoint is removed."""
MAX_LOOKS = 4
"""Stops at a line at which variables are read; later visits add little."""
MAX_VALUE = 160
"""Maximum length of a value that is reasonable to repeat in an answer."""
MAX_SEEN = 300
MAX_COUNT = 8
"""Maximum number of visits that is reasonable to count by continuing."""
ASSERTIONS = ("AssertionError", "AssertionFailedError", "ComparisonFailure", "Failed")
"""Exceptions of failing assertions; `Failed` is pytest's own."""
TracedAsk = ValueAsk | ExceptionAsk | AssertionAsk | ReachAsk
"""Questions whose answers a run shows."""
Candidate = tuple[Category, TracedAsk]


@dataclass(frozen=True)
class Finding:
    """A true answer and where it was seen."""

    truth: Truth
    seen: tuple[Observation, ...]


@dataclass(frozen=True)
class Stop:
    """One stop before a statement."""

    statement: Statement
    hit: int
    depth: int
    locals: Mapping[str, Value]
    fields: Mapping[str, Value]
    """Attributes and entries of the objects that the statement reads, by dotted name."""

    @cached_property
    def values(self) -> Mapping[str, Value]:
        """All values seen, by expression, with the entries of dicts: `self.stock['jam']`."""
        seen = {**self.locals, **self.fields}
        inside = [entry for name, value in seen.items() for entry in _entries(name, value)]
        return seen | {entry.name: entry for entry in inside}


def _entries(name: str, value: Value) -> Iterator[Value]:
    if value.type != "dict" or value.truncated or len(value.text) > 2000:
        return
    node = expression(value.text)
    for key, item in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
        if isinstance(key, ast.Constant) and isinstance(key.value, str | int):
            kind = type(item.value).__name__ if isinstance(item, ast.Constant) else ""
            yield Value(f"{name}[{key.value!r}]", kind, ast.unparse(item))


@dataclass
class Trace:
    """Everything that one run showed."""

    stops: list[Stop] = field(default_factory=list)
    raises: list[tuple[Location, Finding]] = field(default_factory=list)
    """Exceptions that the program raised, handled or not, and their origins."""
    bound: set[tuple[str, int]] = field(default_factory=set)
    """The lines that had breakpoints from the start."""
    capped: set[tuple[str, int]] = field(default_factory=set)
    """Lines whose breakpoints were removed during the run: executed, but not counted."""
    mixed: set[tuple[str, int]] = field(default_factory=set)
    """Lines at which inner scopes (a comprehension, a lambda) stopped too."""
    ended: bool = False
    """Whether the run came to its end."""
    failed: bool = False
    exception: Finding | None = None
    """What ended the test, located at the innermost frame in the workspace."""
    assertion: Finding | None = None
    """What the failed assertion compared."""
    hits: Counter[tuple[str, int]] = field(default_factory=Counter)

    @cached_property
    def entered(self) -> set[tuple[str, str]]:
        """The files and functions in which it stopped; known once the run has ended."""
        places = {stop.statement.place for stop in self.stops}
        return {(place.file, place.function) for place in places}

    @cached_property
    def varied(self) -> set[tuple[Location, str]]:
        """The places and expressions with several values; known once the run has ended."""
        seen: dict[tuple[Location, str], set[str]] = defaultdict(set)
        for stop in self.stops:
            for name, value in stop.values.items():
                seen[stop.statement.place, name].add(value.text)
        return {key for key, texts in seen.items() if len(texts) > 1}

    @cached_property
    def _positions(self) -> Mapping[tuple[str, int, int], int]:
        places = [(stop.statement.place, stop.hit) for stop in self.stops]
        return {(place.file, place.line, hit): i for i, (place, hit) in enumerate(places)}

    def visit(self, place: Location, hit: int = 1) -> Stop | None:
        """The stop at a visit of a statement; known once the run has ended."""
        index = self._positions.get((place.file, place.line, hit))
        return self.stops[index] if index is not None else None

    def next_in_frame(self, stop: Stop) -> Stop | None:
        """The next stop of the same call; None if there is none."""
        here = stop.statement.place
        for other in self.stops[self._positions[here.file, here.line, stop.hit] + 1 :]:
            if other.depth <= stop.depth:
                there = other.statement.place
                same = (here.file, here.function) == (there.file, there.function)
                return other if same and other.depth == stop.depth else None
        return None


@dataclass(frozen=True)
class Runs:
    """Two runs of one test, in fresh sandboxes."""

    test: str
    program: Program
    first: Trace
    second: Trace
    patch: str = ""
    """The change made in the workspace before both runs."""

    @cached_property
    def unsteady(self) -> frozenset[tuple[str, str]]:
        """The files and functions in which the runs differ in any value or visit: if the order of a
        set decides (by addresses), two runs agree on single values only by chance."""
        pairs = ((self.first, self.second), (self.second, self.first))
        return frozenset(
            (stop.statement.place.file, stop.statement.place.function)
            for one, other in pairs
            for stop in one.stops
            if not _is_alike(stop, other.visit(stop.statement.place, stop.hit))
        )


def _is_alike(stop: Stop, other: Stop | None) -> bool:
    if other is None:
        return False
    shared = stop.locals.keys() & other.locals.keys()
    texts = ({stop.locals[name].text, other.locals[name].text} for name in shared)
    return not any(len(pair) > 1 and all(map(is_comparable, pair)) for pair in texts)


def trace_test(
    debugger: Debugger,
    program: Program,
    test: str,
    timeout: float,
    files: Collection[str] | None = None,
) -> Trace:
    """Run a test to its end or timeout, in seconds; the session is then post mortem or done. Stops
    in `files`, or in all modules. Raises InfrastructureFailure if the test can't be started."""
    chosen = [m for path, m in program.modules.items() if files is None or path in files]
    statements = {(m.path, each.place.line): each for m in chosen for each in m.statements}
    points = [BreakpointRequest(file=file, line=line) for file, line in statements]
    if all(path.endswith(".py") for path in program.modules):
        # In Java this would stop at each failed lookup of the class loader.
        points.append(BreakpointRequest(exception="Exception"))
    event = debugger.start(Launch(test, tuple(points), stop_at_entry=False))
    if event.state is State.START:
        raise InfrastructureFailure(f"{test} can't be debugged: {event.error}")
    numbers: dict[tuple[str, int], list[int]] = defaultdict(list)
    for point in event.breakpoints:
        numbers[point.file, point.line].append(point.number)
    trace = Trace(bound=set(numbers) & set(statements))
    deadline = time.monotonic() + timeout
    while event.state in (State.RUNTIME, State.RUNTIME_ERROR):
        left = deadline - time.monotonic()
        if event.stop_reason is StopReason.INTERRUPTED or left <= 0:
            return trace
        place = (event.file or "", event.line or 0)
        statement, raised = statements.get(place), event.exception
        if event.stop_reason is StopReason.EXCEPTION and raised is not None:
            if place[0] in program.modules:
                origin = _location(program, *place, event.function or "")
                finding = _raised(raised, origin, place[1], event.depth or 0)
                trace.raises.append((origin, finding))
        elif statement is None or event.function != statement.place.function:
            trace.mixed.add(place)
        else:
            trace.hits[place] += 1
            hit = trace.hits[place]
            trace.stops.append(_look(debugger, statement, hit, event.depth or 0))
            if hit >= MAX_HITS or len(trace.stops) >= MAX_STOPS:
                trace.capped.add(place)
                for number in numbers.pop(place, []):
                    debugger.remove_breakpoint(number)
        event = debugger.control(Action.CONTINUE, timeout=left)
    trace.ended = event.stop_reason is not StopReason.KILLED
    trace.failed = trace.ended and event.state is State.POST_MORTEM
    if trace.failed and event.exception is not None:
        frames = debugger.stack().frames
        trace.exception = _ending(event.exception, frames, program)
        trace.assertion = _assertion(debugger, event.exception, frames, program)
    return trace


def _look(debugger: Debugger, statement: Statement, hit: int, depth: int) -> Stop:
    """Read the variables, and the contents of the objects that the statement reads."""
    shown = debugger.locals().values if hit <= MAX_LOOKS else ()
    values, fields = {value.name: value for value in shown}, dict[str, Value]()
    for base in dict.fromkeys(name.partition(".")[0] for name in statement.attributes):
        for value in debugger.fields(base).values if base in values else ():
            dot = "" if value.name.startswith("[") else "."
            fields[f"{base}{dot}{value.name}"] = value
    return Stop(statement, hit, depth, values, fields)


def _ending(raised: ExceptionInfo, frames: Sequence[Frame], program: Program) -> Finding | None:
    inside = [each for each in frames if program.module(each.file) is not None]
    is_assertion = raised.type.rpartition(".")[2] in ASSERTIONS
    if not inside or (inside[0].file in program.tests and is_assertion):
        return None
    origin = _location(program, inside[0].file, inside[0].line, inside[0].function)
    return _raised(raised, origin, inside[0].line, len(inside))


def _raised(raised: ExceptionInfo, origin: Location, line: int, depth: int) -> Finding:
    place, said = f"{origin.file}:{line}", f"{raised.type}: {raised.message}"[:MAX_SEEN]
    seen = Observation(place=place, function=origin.function, hit=0, depth=depth, seen=said)
    message = raised.message[:MAX_SEEN]
    return Finding(ExceptionTruth(type=raised.type, message=message, origin=origin), (seen,))


def _location(program: Program, file: str, line: int, function: str) -> Location:
    """The statement at a line."""
    module = program.module(file)
    statement = module.at(line) if module is not None else None
    if statement is not None and statement.place.function == function:
        return statement.place
    return Location(file=file, line=line, last_line=line, function=function)


def _assertion(
    debugger: Debugger, raised: ExceptionInfo, frames: Sequence[Frame], program: Program
) -> Finding | None:
    """Evaluate both sides of a failed assertion in its frame post mortem. None if it compares other
    than by `==` or truth, or if the values differ from the message: then evaluating has side
    effects."""
    frame = next((each for each in frames if each.file in program.tests), None)
    if frame is None or raised.type != "AssertionError":
        return None
    module = program.tests[frame.file]
    sides = sides_at(module.tree, frame.line) if isinstance(module, PythonModule) else None
    expressions = [each for each in sides or () if each is not None]
    values: list[Value] = []
    for each in expressions:
        event = debugger.evaluate(each, frame.index)
        if event.error_kind is None and event.values and _is_askable(event.values[0]):
            values += event.values[:1]
    if not expressions or len(values) < len(expressions):
        return None
    pure = all(is_pure(node) for node in map(expression, expressions) if node is not None)
    if not _fits(raised.message, [value.text for value in values], pure):
        return None
    shown = [ValueTruth(type=value.type, text=value.text) for value in values]
    at = _location(program, frame.file, frame.line, frame.function)
    truth = AssertionTruth(place=at, actual=shown[0], expected=shown[1] if shown[1:] else None)
    text = ", ".join(f"{value.name} = {value.text}" for value in values)[:MAX_SEEN]
    place = f"{frame.file}:{frame.line}"
    seen = Observation(place=place, function=frame.function, hit=0, depth=1, seen=text)
    return Finding(truth, (seen,))


def _fits(message: str, texts: Sequence[str], pure: bool) -> bool:
    """Whether the values fail the assertion and match its message, which cuts the middle of long
    ones. `pure`: whether evaluating them has no side effects."""
    first = message.partition("\n")[0].removeprefix("assert ")
    actual, *expected = texts
    if not expected:
        return pure or _shows(first.removeprefix("not "), actual)
    if same_text(actual, expected[0]):
        return False
    for between in (" == ", " != ", " is "):
        left, found, right = first.partition(between)
        if found:
            pairs = ((actual, expected[0]), (expected[0], actual))
            return any(_shows(left, one) and _shows(right, other) for one, other in pairs)
    return pure


def _shows(shown: str, text: str) -> bool:
    """Whether a message's text can be this value."""
    head, cut, tail = shown.strip().partition("...")
    return text.startswith(head) and text.endswith(tail) if cut else same_text(shown, text)


def find(ask: TracedAsk, trace: Trace) -> Finding | None:
    """The answer from a run, or None if there is no comparable one."""
    match ask:
        case ValueAsk():
            return _value(ask, trace)
        case ExceptionAsk(ends_test=True):
            return trace.exception
        case ExceptionAsk(function=function):
            wanted = (each for origin, each in trace.raises if function in ("", origin.function))
            return next(wanted, None)
        case AssertionAsk():
            return trace.assertion
        case ReachAsk():
            return _reach(ask, trace)


def observed(stop: Stop, text: str) -> Observation:
    """A stop as evidence, without object addresses, which differ between runs."""
    at, seen = stop.statement.place, without_addresses(text)[:MAX_SEEN]
    return Observation(
        place=str(at), function=at.function, hit=stop.hit, depth=stop.depth, seen=seen
    )


def _value(ask: ValueAsk, trace: Trace) -> Finding | None:
    stop = trace.visit(ask.place, ask.hit)
    if stop is not None and ask.after:
        stop = trace.next_in_frame(stop)
    value = stop.values.get(ask.expression) if stop is not None else None
    if stop is None or value is None or not _is_askable(value):
        return None
    seen = observed(stop, f"{ask.expression} = {value.text}")
    return Finding(ValueTruth(type=value.type, text=value.text), (seen,))


def _is_askable(value: Value) -> bool:
    short = not value.truncated and len(value.text) <= MAX_VALUE
    return short and is_comparable(value.text)


def _reach(ask: ReachAsk, trace: Trace) -> Finding | None:
    place = ask.place.file, ask.place.line
    hits = trace.hits[place]
    counted = place not in trace.capped and place not in trace.mixed
    if not trace.ended or place not in trace.bound or not (hits or counted):
        return None
    if ask.count and (not counted or hits > MAX_COUNT):
        return None
    truth = ReachTruth(reached=hits > 0, count=hits if counted else None)
    first = trace.visit(ask.place)
    if first is not None:
        return Finding(truth, (observed(first, f"stopped here {hits} times"),))
    at, never = ask.place, "never stopped here"
    missed = Observation(place=str(at), function=at.function, hit=0, depth=0, seen=never)
    return Finding(truth, (missed,))


def candidates(trace: Trace, program: Program) -> Iterator[Candidate]:
    """All questions about one run by category, before the rules, except those that need a patch."""
    for stop in trace.stops:
        yield from _values(stop, trace)
    # Every bound line of the executed modules, with and without its count.
    for path in sorted({file for file, _ in trace.hits}):
        for statement in program.modules[path].statements:
            if (path, statement.place.line) in trace.bound:
                yield Category.REACHABILITY, ReachAsk(place=statement.place)
                if statement.once:
                    yield Category.REACHABILITY, ReachAsk(place=statement.place, count=True)
    if trace.failed:
        yield Category.ASSERTION, AssertionAsk()
        yield Category.EXCEPTION, ExceptionAsk(ends_test=True)
    yield Category.EXCEPTION, ExceptionAsk(ends_test=False)
    for function in dict.fromkeys(origin.function for origin, _ in trace.raises):
        yield Category.EXCEPTION, ExceptionAsk(ends_test=False, function=function)


def _values(stop: Stop, trace: Trace) -> Iterator[Candidate]:
    """Questions about the variables that a statement reads, their attributes and entries, and the
    variable that it assigns."""
    statement, place = stop.statement, stop.statement.place
    if not statement.once or (place.file, place.line) in trace.mixed:
        return
    names = [name for name in statement.used if name in stop.locals]
    for name in names:
        if name not in ("self", "cls"):
            yield Category.LOCAL, ValueAsk(expression=name, place=place, hit=stop.hit)
    used = [name for name in statement.attributes if name in stop.fields]
    bases = tuple(f"{base}[" for base in (*statement.attributes, *names))
    entries = [n for n in stop.values if n.endswith("]") and n.startswith(bases)]
    fields = [name for name in stop.fields if "." in name]
    for name in dict.fromkeys([*used, *entries, *fields]):
        yield Category.ATTRIBUTE, ValueAsk(expression=name, place=place, hit=stop.hit)
    follower = trace.next_in_frame(stop)
    if follower is None or len(statement.assigned) != 1:
        return
    # The next stop is the next statement only if all breakpoints in the function stayed.
    visited = {each.statement.place for each in trace.stops}
    own = [each for each in visited if (each.file, each.function) == (place.file, place.function)]
    is_capped = any((each.file, each.line) in trace.capped for each in own)
    name = statement.assigned[0]
    if name in follower.locals and not is_capped:
        yield Category.LOCAL, ValueAsk(expression=name, place=place, hit=stop.hit, after=True)


def root_cause(instance: Instance, trace: Trace, program: Program) -> RootCauseTruth | None:
    """The statements that the gold patch changes, if the failing test runs one of them."""
    places: dict[Location, None] = {}
    files = {path: module.text.encode() for path, module in program.modules.items()}
    for changed in changed_code(files, instance.gold_patch):
        module = program.modules.get(changed.path)
        if module is None:
            continue
        source = read_source(changed.path, module.text.encode())
        around = function_at(source, changed.end)
        name = around.name if around is not None else ""
        start, end = changed.start, changed.end
        held = [each.place for each in module.statements]
        inside = [place for place in held if place.line <= end and place.last_line >= start]
        places |= dict.fromkeys(place for place in inside if place.function == name)
        if not inside and name:
            at = Location(file=changed.path, line=start, last_line=end, function=name)
            places[at] = None
    functions = {(place.file, place.function) for place in places}
    return RootCauseTruth(places=tuple(places)) if functions & trace.entered else None


def root_cause_finding(truth: RootCauseTruth, first: Trace, second: Trace) -> Finding | None:
    """The root cause with the first stop in its function, and what two runs agree on there."""
    functions = {(place.file, place.function) for place in truth.places}
    for stop in first.stops:
        place = stop.statement.place
        if (place.file, place.function) in functions:
            other = second.visit(place, stop.hit)
            again = other.locals if other is not None else {}
            shown = []
            for name in stop.statement.used[:3]:
                texts = [held[name].text for held in (stop.locals, again) if name in held]
                if len(texts) == 2 and len(set(map(without_addresses, texts))) == 1:
                    shown.append(f"{name} = {texts[0]}")
            return Finding(truth, (observed(stop, "; ".join(shown)),))
    return None
