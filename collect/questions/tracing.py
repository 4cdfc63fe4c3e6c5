"""Runs a test under the debugger, stops at every statement of the program, and records what is
seen.

Questions and their true answers are made from such runs.
"""

from __future__ import annotations

import ast
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from collect.code.python_source import is_pure
from collect.errors import InfrastructureFailure
from collect.question_records import Location
from collect.questions.comparing import same_text
from collect.questions.program import Program
from collect.questions.python_module import PythonModule
from collect.questions.sides import Sides, sides_at
from collect.questions.statements import Statement
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

# What a failing assertion compared, read post mortem in its frame.


@dataclass(frozen=True)
class SeenAssertion:
    """A failing assertion, and what it compared."""

    file: str
    line: int
    function: str
    actual: Value
    expected: Value | None


def see_assertion(
    debugger: Debugger, ending: DebugEvent, frames: tuple[Frame, ...], program: Program
) -> SeenAssertion | None:
    """Evaluate both sides in the frame post mortem.

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
    actual = _evaluated(debugger, sides.actual, frame.index)
    expected = _evaluated(debugger, sides.expected, frame.index) if sides.expected else None
    if actual is None or (sides.expected is not None and expected is None):
        return None
    if not _fits(ending.exception.message, sides, actual, expected):
        return None
    return SeenAssertion(frame.file, frame.line, frame.function, actual, expected)


def _evaluated(debugger: Debugger, expression: str, frame: int) -> Value | None:
    event = debugger.evaluate(expression, frame)
    if event.error_kind is not None or not event.values or event.values[0].truncated:
        return None
    return event.values[0]


def _fits(message: str, sides: Sides, actual: Value, expected: Value | None) -> bool:
    """Whether the values fail the assertion and match its message.

    The message cuts the middle of long values, so only their ends are compared.
    """
    texts = filter(None, (sides.actual, sides.expected))
    wanted_pure = all(is_pure(ast.parse(text, mode="eval").body) for text in texts)
    first = message.partition("\n")[0]
    if expected is None:
        shown = first.removeprefix("assert ").removeprefix("not ").strip()
        return wanted_pure or _shows(shown, actual.text)
    if same_text(actual.text, expected.text):
        return False
    for between in (" == ", " != ", " is "):
        left, found, right = first.removeprefix("assert ").partition(between)
        if found:
            pairs = ((actual.text, expected.text), (expected.text, actual.text))
            return any(_shows(left, one) and _shows(right, other) for one, other in pairs)
    return wanted_pure


def _shows(shown: str, text: str) -> bool:
    """Whether a message's text can be this value."""
    head, cut, tail = shown.strip().partition("...")
    if cut:
        return text.startswith(head) and text.endswith(tail)
    return same_text(shown, text)


MAX_STOPS = 600
"""Stops in a run, after which each line is stopped at only once more."""
MAX_HITS = 12
"""Stops at a line, after which its breakpoint is removed."""
MAX_LOOKS = 4
"""Stops at a line at which variables are read; later visits add little."""
OPEN = (State.RUNTIME, State.RUNTIME_ERROR)


@dataclass(frozen=True)
class Stop:
    """One stop before a statement."""

    statement: Statement
    hit: int
    depth: int
    locals: Mapping[str, Value]
    fields: Mapping[str, Value]
    """Attributes and entries of the objects that the statement reads, by dotted name."""


@dataclass(frozen=True)
class Raise:
    """An exception that the program raised, handled or not."""

    type: str
    message: str
    file: str
    line: int
    function: str
    depth: int


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

    def position(self, place: Location, hit: int = 1) -> int | None:
        """The index among the stops of a visit of a statement; known once the run has ended."""
        index = self._positions.get((place.file, place.line, hit))
        return index if index is not None and self.stops[index].statement.place == place else None

    @cached_property
    def _positions(self) -> Mapping[tuple[str, int, int], int]:
        places = [(stop.statement.place, stop.hit) for stop in self.stops]
        return {(place.file, place.line, hit): i for i, (place, hit) in enumerate(places)}


def _inside(base: str, name: str) -> str:
    """`self.limit`, `rows['a']`."""
    return f"{base}{name}" if name.startswith("[") else f"{base}.{name}"


@dataclass(frozen=True)
class Tracer:
    """Traces tests of one program."""

    program: Program
    timeout: float

    def trace(self, debugger: Debugger, test: str, files: Collection[str] | None = None) -> Trace:
        """Run a test to its end or timeout. The session is then post mortem or done.

        `files` are the modules to stop in, None for all. Raises InfrastructureFailure if the test
        can't be started.
        """
        chosen = [m for path, m in self.program.modules.items() if files is None or path in files]
        statements = {
            (module.path, each.place.line): each for module in chosen for each in module.statements
        }
        points = [BreakpointRequest(file=file, line=line) for file, line in statements]
        if all(path.endswith(".py") for path in self.program.modules):
            # In Java this would stop at each failed lookup of the class loader.
            points.append(BreakpointRequest(exception="Exception"))
        event = debugger.start(Launch(test, tuple(points), stop_at_entry=False))
        if event.state is State.START:
            raise InfrastructureFailure(f"{test} can't be debugged: {event.error}")
        run = _Run(self, debugger, statements, event)
        run.to_the_end()
        return run.trace


class _Run:
    """One run of one test."""

    def __init__(
        self,
        tracer: Tracer,
        debugger: Debugger,
        statements: Mapping[tuple[str, int], Statement],
        event: DebugEvent,
    ) -> None:
        self.trace = Trace()
        self._debugger, self._statements, self._event = debugger, statements, event
        self._program = tracer.program
        self._deadline = time.monotonic() + tracer.timeout
        numbers: dict[tuple[str, int], list[int]] = defaultdict(list)
        for point in event.breakpoints:
            if point.exception is None:
                numbers[point.file, point.line].append(point.number)
        self._numbers = numbers
        self.trace.bound = set(numbers) & set(statements)

    def to_the_end(self) -> None:
        """Continue from stop to stop."""
        while self._event.state in OPEN:
            if self._event.stop_reason is StopReason.INTERRUPTED:
                return
            self._note(self._event)
            left = self._deadline - time.monotonic()
            if left <= 0:
                return
            self._event = self._debugger.control(Action.CONTINUE, timeout=left)
        if self._event.stop_reason is StopReason.KILLED:
            return
        self.trace.ending = self._event
        self.trace.failed = self._event.state is State.POST_MORTEM
        if self.trace.failed:
            frames = self.trace.frames = self._debugger.stack().frames
            self.trace.assertion = see_assertion(self._debugger, self._event, frames, self._program)

    def _note(self, event: DebugEvent) -> None:
        if event.stop_reason is StopReason.EXCEPTION and event.exception is not None:
            raised, where = event.exception, (event.file or "", event.line or 0)
            self.trace.raises.append(
                Raise(raised.type, raised.message, *where, event.function or "", event.depth or 0)
            )
            return
        place = (event.file or "", event.line or 0)
        statement = self._statements.get(place)
        if statement is None or event.function != statement.place.function:
            self.trace.mixed.add(place)
            return
        self.trace.hits[place] += 1
        self._look(event, statement, self.trace.hits[place])
        enough = len(self.trace.stops) >= MAX_STOPS
        if enough or self.trace.hits[place] >= MAX_HITS:
            self.trace.capped.add(place)
            for number in self._numbers.pop(place, []):
                self._debugger.remove_breakpoint(number)

    def _look(self, event: DebugEvent, statement: Statement, hit: int) -> None:
        """Read the variables, and the contents of the objects that the statement reads."""
        values: dict[str, Value] = {}
        fields: dict[str, Value] = {}
        if hit <= MAX_LOOKS:
            values = {value.name: value for value in self._debugger.locals().values}
        for base in dict.fromkeys(name.partition(".")[0] for name in statement.attributes):
            if base in values:
                found = self._debugger.fields(base).values
                fields |= {_inside(base, value.name): value for value in found}
        self.trace.stops.append(Stop(statement, hit, event.depth or 0, values, fields))
