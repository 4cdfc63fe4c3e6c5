"""Runs a test under the debugger, stops at every statement of the program, and records what is
seen.

Questions and their true answers are made from such runs.
"""

from __future__ import annotations

import ast
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from collect.code.python_source import is_pure
from collect.errors import InfrastructureFailure
from collect.question_records import Location
from collect.questions.comparing import is_comparable, same_text
from collect.questions.program import Program, PythonModule, Sides, Statement, sides_at
from sandbox.debugger import (
    Action,
    BreakpointRequest,
    DebugEvent,
    Debugger,
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
    try:
        node = ast.parse(value.text, mode="eval").body
    except (SyntaxError, ValueError):
        return
    for key, item in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
        if isinstance(key, ast.Constant) and isinstance(key.value, str | int):
            kind = type(item.value).__name__ if isinstance(item, ast.Constant) else ""
            yield Value(f"{name}[{key.value!r}]", kind, ast.unparse(item))


@dataclass(frozen=True)
class Raise:
    """An exception that the program raised, handled or not."""

    type: str
    message: str
    file: str
    line: int
    function: str
    depth: int


@dataclass(frozen=True)
class SeenAssertion:
    """A failing assertion, and what it compared."""

    frame: Frame
    actual: Value
    expected: Value | None


@dataclass
class Trace:
    """Everything that one run showed."""

    stops: list[Stop] = field(default_factory=list)
    raises: list[Raise] = field(default_factory=list)
    bound: set[tuple[str, int]] = field(default_factory=set)
    """The lines that had breakpoints from the start."""
    capped: set[tuple[str, int]] = field(default_factory=set)
    """Lines whose breakpoints were removed during the run: executed, but not counted."""
    mixed: set[tuple[str, int]] = field(default_factory=set)
    """Lines at which inner scopes (a comprehension, a lambda) stopped too."""
    ending: DebugEvent | None = None
    """None if the run did not end."""
    frames: tuple[Frame, ...] = ()
    """The stack post mortem."""
    failed: bool = False
    assertion: SeenAssertion | None = None
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
        """The files and functions in which the runs differ in any value or visit.

        If the order of a set decides (by addresses), two runs agree on single values only by
        chance.
        """
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
    pairs = [(stop.locals[name].text, other.locals[name].text) for name in shared]
    return all(
        one == again or not (is_comparable(one) and is_comparable(again)) for one, again in pairs
    )


def trace_test(
    debugger: Debugger,
    program: Program,
    test: str,
    timeout: float,
    files: Collection[str] | None = None,
) -> Trace:
    """Run a test to its end or timeout, in seconds. The session is then post mortem or done.

    `files` are the modules to stop in, None for all. Raises InfrastructureFailure if the test can't
    be started.
    """
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
            where = (*place, event.function or "", event.depth or 0)
            trace.raises.append(Raise(raised.type, raised.message, *where))
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
    if event.stop_reason is not StopReason.KILLED:
        trace.ending = event
        trace.failed = event.state is State.POST_MORTEM
    if trace.failed:
        trace.frames = debugger.stack().frames
        trace.assertion = _assertion(debugger, event, trace.frames, program)
    return trace


def _look(debugger: Debugger, statement: Statement, hit: int, depth: int) -> Stop:
    """Read the variables, and the contents of the objects that the statement reads."""
    values: dict[str, Value] = {}
    fields: dict[str, Value] = {}
    if hit <= MAX_LOOKS:
        values = {value.name: value for value in debugger.locals().values}
    for base in dict.fromkeys(name.partition(".")[0] for name in statement.attributes):
        for value in debugger.fields(base).values if base in values else ():
            dot = "" if value.name.startswith("[") else "."
            fields[f"{base}{dot}{value.name}"] = value
    return Stop(statement, hit, depth, values, fields)


def _assertion(
    debugger: Debugger, ending: DebugEvent, frames: tuple[Frame, ...], program: Program
) -> SeenAssertion | None:
    """Evaluate both sides of a failed assertion in its frame post mortem.

    None if it compares other than by `==` or truth, or if the values differ from the message: then
    evaluating has side effects.
    """
    frame = next((f for f in frames if f.file in program.tests), None)
    if frame is None or ending.exception is None or ending.exception.type != "AssertionError":
        return None
    module = program.tests[frame.file]
    sides = sides_at(module.tree, frame.line) if isinstance(module, PythonModule) else None
    if sides is None:
        return None
    values: list[Value] = []
    for expression in filter(None, (sides.actual, sides.expected)):
        event = debugger.evaluate(expression, frame.index)
        if event.error_kind is not None or not event.values or event.values[0].truncated:
            return None
        values.append(event.values[0])
    actual, expected = values[0], values[1] if sides.expected else None
    fits = _fits(ending.exception.message, sides, actual, expected)
    return SeenAssertion(frame, actual, expected) if fits else None


def _fits(message: str, sides: Sides, actual: Value, expected: Value | None) -> bool:
    """Whether the values fail the assertion and match its message.

    The message cuts the middle of long values, so only their ends are compared.
    """
    texts = filter(None, (sides.actual, sides.expected))
    wanted_pure = all(is_pure(ast.parse(text, mode="eval").body) for text in texts)
    first = message.partition("\n")[0].removeprefix("assert ")
    if expected is None:
        return wanted_pure or _shows(first.removeprefix("not "), actual.text)
    if same_text(actual.text, expected.text):
        return False
    for between in (" == ", " != ", " is "):
        left, found, right = first.partition(between)
        if found:
            pairs = ((actual.text, expected.text), (expected.text, actual.text))
            return any(_shows(left, one) and _shows(right, other) for one, other in pairs)
    return wanted_pure


def _shows(shown: str, text: str) -> bool:
    """Whether a message's text can be this value."""
    head, cut, tail = shown.strip().partition("...")
    return text.startswith(head) and text.endswith(tail) if cut else same_text(shown, text)
