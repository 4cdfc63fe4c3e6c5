"""The oracle's debug session: its moves, parsers for their observations, and ways to a line."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from collect.agents.subagent_task import read_start, read_subagent_task, start_places
from collect.benchmarks.base import Instance
from collect.code.java_tree import LAMBDA
from collect.code.source import function_at, read_source
from collect.oracle.scripted import PHRASES, ExplorationPolicy, say
from collect.question_records import Location
from collect.store.messages import Message
from sandbox.debugger.zero_hits import CHILD_PROCESSES
from sandbox.text import source_lines

Result = TypeVar("Result")
Moves = Generator[Message, list[str], Result]

PAUSED = re.compile(
    r"^Paused at (?=.*\)$)(?P<file>.+?):(?P<line>\d+) in (?P<function>\S+) \((?P<reason>.*)\)$",
    re.MULTILINE,
)
ENDED = re.compile(r"^Program ended with exit code (?P<code>-?\d+)", re.MULTILINE)
RAISED = re.compile(r"^Exception: (?P<type>[\w.$]+)(?:: (?P<message>.*))?$", re.MULTILINE)
VALUE = re.compile(
    r"^(?P<name>\S.*?) = (?P<text>.*?)(?P<remark>  \([\w.$, <>\[\]]+\))?(?P<more>\n {4}.*)?$",
    re.MULTILINE,
)
FRAME = re.compile(
    r"^#(?P<index>\d+) (?P<file>.+?):(?P<line>\d+) in (?P<function>\S+)", re.MULTILINE
)
HIT = re.compile(r"\bhit (?P<hit>\d+)$")
NUMBERS = re.compile(r"breakpoint (?P<numbers>\d+(?:, \d+)*)")
MAX_STEPS = 6
"""Single steps before it sets a breakpoint instead."""
MAX_SHOWN = 80
"""Characters of a value that an answer shows."""
FEW_VISITS = 3
"""Visits of a line that are passed one by one."""
MAX_STOPS = 12
"""Stops elsewhere, and earlier visits, on the way to a line."""


def values_shown(text: str, remarks: bool = False) -> dict[str, str]:
    """The values in an observation by name, each on one line: one that goes on is marked as cut.
    With `remarks`, their types too.
    """
    return {found["name"]: _shown(found, remarks) for found in VALUE.finditer(text)}


def _shown(found: re.Match[str], remarks: bool) -> str:
    text, remark = found["text"].strip(), found["remark"] or ""
    if found["more"]:
        return f"{text} ..."
    if remarks:
        return text + remark
    return f"{text} ..." if remark.endswith("cut)") and not text.endswith("...") else text


def shortened(text: str, most: int) -> str:
    """The text, or its start and a mark that it is cut."""
    return text if len(text) <= most else f"{text[: most - 4]} ..."


@dataclass(frozen=True)
class Stopped:
    """Where the program is, according to the debugger's text."""

    file: str
    line: int
    function: str
    reason: str
    text: str

    @property
    def post_mortem(self) -> bool:
        """Whether an exception has ended the test."""
        return self.reason.startswith("post mortem")

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def numbers(self) -> list[int]:
        """Numbers of the breakpoints that were hit."""
        found = NUMBERS.search(self.reason)
        return [int(n) for n in found["numbers"].split(",")] if found else []

    @property
    def hit(self) -> int:
        """Which hit of its breakpoint it is; 1 if that is not said."""
        found = HIT.search(self.reason)
        return int(found["hit"]) if found else 1

    @property
    def frames(self) -> list[Mapping[str, str]]:
        """The stack, innermost frame first, if it is shown."""
        return [frame.groupdict() for frame in FRAME.finditer(self.text)]

    @property
    def raised(self) -> re.Match[str] | None:
        return RAISED.search(self.text)


@dataclass
class Session:
    """What has been done and seen so far."""

    habits: ExplorationPolicy
    question: str = ""
    test: str = ""
    evidence: list[str] = field(default_factory=list)
    stopped: Stopped | None = None
    """None if the program has ended or was never started."""
    exit_code: int | None = None
    place: str = ""
    """The last relevant place."""
    has_children: bool = False
    """Whether the test has run child processes, which may reach what the debugger did not."""
    steps: int = 0
    """How many calls have been made one by one."""
    opening: str = ""
    """The start of the session that was opened with the task, at the breakpoints `_opened`; empty
    if none is open."""
    _opened: set[str] = field(default_factory=set)

    def take(self, task: str) -> None:
        """Take in the Debug Subagent's task."""
        asked = read_subagent_task(task)
        self.question, self.test = (asked.question, asked.test) if asked else ("", "")
        self.opening = read_start(task)
        self._opened = set(start_places(asked)) if asked else set()

    @property
    def paused(self) -> Stopped | None:
        """Where the program is paused; None if the test has ended."""
        return None if self.stopped is None or self.stopped.post_mortem else self.stopped

    @property
    def nowhere(self) -> str:
        """What is said of a place that no stop has shown."""
        return "not known: it may run in a child process" if self.has_children else "not reached"

    @property
    def named_test(self) -> dict[str, Any]:
        """The argument that names the test. Direct sessions start the question's by default."""
        return {} if self.habits.direct else {"test": self.test}

    def pick(self, phrases: str, **values: object) -> str:
        """One of the phrases of this name, filled in."""
        every = PHRASES[phrases]
        return (every[0] if self.habits.direct else self.habits.rng.choice(every)).format(**values)

    def do(self, why: str, name: str, **arguments: Any) -> Moves[str]:
        self.steps += 1
        seen = yield say(why, (name, arguments))
        return seen[0]

    def start(
        self, why: str, points: Sequence[str], stop_at_test: bool, **more: Any
    ) -> Moves[Stopped | None]:
        """Start the test. Returns its first stop, or None if it has ended."""
        as_opened = not stop_at_test and not more and self.is_opened_at(points)
        opening, self.opening = self.opening, ""
        if stop_at_test and not points and "(entry" in opening.partition("\n")[0]:
            return self.came_to(opening)
        stopped = self.came_to(opening) if as_opened else None
        if stopped is not None and not stopped.post_mortem:
            return stopped
        arguments = {**self.named_test, **more}
        if points:
            arguments["breakpoints"] = list(points)
        if not stop_at_test or self.habits.detour(0.3):
            arguments["stop_at_test"] = stop_at_test
        return self.came_to((yield from self.do(why, "debug_start_session", **arguments)))

    def is_opened_at(self, points: Sequence[str]) -> bool:
        """Whether the session that was opened with the task, and not used yet, has just these
        breakpoints."""
        return bool(self.opening) and {*points} == self._opened

    def go_on(self, why: str, stop: Stopped | None = None) -> Moves[Stopped | None]:
        """Continue, and stop no more where it is, or was at that stop."""
        stop = stop or self.paused
        numbers = stop.numbers if stop is not None else []
        calls = [("debug_breakpoint", {"action": "remove", "number": each}) for each in numbers]
        seen = yield say(why, *calls, ("debug_control", {"action": "continue"}))
        return self.came_to(seen[-1])

    def control(self, why: str, action: str) -> Moves[Stopped | None]:
        return self.came_to((yield from self.do(why, "debug_control", action=action)))

    def pass_visits(self, why: str, place: str, count: int, watch: Sequence[str]) -> Moves[None]:
        """Run on to the last of so many further visits of a line, and see values at each."""
        asked = {"location": place, "watch": list(watch), "hits": count}
        self.came_to((yield from self.do(why, "debug_breakpoint", action="collect", **asked)))

    def set_breakpoint(self, why: str, location: str, **more: Any) -> Moves[None]:
        yield from self.do(why, "debug_breakpoint", action="set", location=location, **more)

    def remove_breakpoint(self, why: str, number: int) -> Moves[None]:
        yield from self.do(why, "debug_breakpoint", action="remove", number=number)

    def evaluate(self, why: str, expression: str, frame: int = 0) -> Moves[str | None]:
        """The text of a value, or None if it can't be evaluated."""
        more = {"frame": frame} if frame else {}
        asked = {"what": "evaluate", "expression": expression, **more}
        text = yield from self.do(why, "debug_inspect", **asked)
        prefix = f"{expression} = "
        if not text.startswith(prefix):
            return None
        return values_shown("x = " + text.removeprefix(prefix))["x"]

    def locals(self, why: str, frame: int = 0) -> Moves[Mapping[str, str]]:
        more = {"frame": frame} if frame else {}
        return values_shown((yield from self.do(why, "debug_inspect", what="locals", **more)))

    def fields(self, why: str, expression: str) -> Moves[Mapping[str, str]]:
        asked = {"what": "fields", "expression": expression}
        return values_shown((yield from self.do(why, "debug_inspect", **asked)))

    def stack(self, why: str) -> Moves[list[Mapping[str, str]]]:
        """The frames, innermost first."""
        text = yield from self.do(why, "debug_inspect", what="stack")
        return [frame.groupdict() for frame in FRAME.finditer(text)]

    def read(self, why: str, path: str, first: int, last: int) -> Moves[None]:
        lines = {"start_line": max(first, 1), "end_line": last}
        yield from self.do(why, "read_file", path=path, **lines)

    def note(self, text: str) -> None:
        """Record an observation that is relevant to the question."""
        if text not in self.evidence:
            self.evidence.append(text)

    def note_values(self, seen: Mapping[str, str]) -> None:
        """Record the first two of these values."""
        for name, text in list(seen.items())[:2]:
            self.note(f"{name} = {shortened(text, MAX_SHOWN)}")

    def came_to(self, text: str) -> Stopped | None:
        """Take in where the program is now."""
        paused, ended = PAUSED.search(text), ENDED.search(text)
        self.stopped = None
        self.has_children = self.has_children or CHILD_PROCESSES in text
        if paused:
            file, line, function, reason = paused.groups()
            self.stopped = Stopped(file, int(line), function, reason, text)
        elif ended:
            self.exit_code = int(ended["code"])
        return self.stopped


class LineNavigator:
    """Goes to one visit of one line: like a developer, not always the shortest way."""

    def __init__(
        self,
        instance: Instance,
        session: Session,
        place: Location,
        hit: int,
        aim: str = "",
        *,
        next_visit: str = "next_visit",
    ) -> None:
        """`aim` continues a sentence that names the place: what to do there. `next_visit` names the
        phrases for passing a visit."""
        data = instance.files.get(place.file, b"")
        self._source = read_source(place.file, data)
        self._lines = source_lines(data.decode("utf-8", "replace"))
        self._session, self._place, self.hit, self._aim = session, place, hit, aim
        self._rng, self._habits = session.habits.rng, session.habits
        self._point, self._next_visit = str(place), next_visit

    def go(self) -> Moves[bool]:
        """Whether the program is now paused at that visit."""
        place = self._place
        if self._habits.detour(0.45):
            around = self._rng.randint(4, 12)
            whys = (
                f"I read the code around {place} first.",
                f"What does line {place.line} do?",
                "A look at the source before I stop there.",
            )
            why = self._rng.choice(whys)
            first, last = place.line - around, place.line + around
            yield from self._session.read(why, place.file, first, last)
        yield from self._choose()()
        return (yield from self.arrive())

    def arrive(self) -> Moves[bool]:
        """From the first stop on: whether the program is now paused at that visit."""
        session, place = self._session, self._place
        visits = 0
        for _ in range(MAX_STOPS):
            stopped = session.paused
            if stopped is None:
                return False
            if self.is_there(stopped):
                visits = stopped.hit if "collected" in stopped.reason else visits + 1
                left = self.hit - visits
                if not left:
                    session.place = self._point
                    return True
                if left > FEW_VISITS:
                    watch = self._source.probes(self._place.line, self._place.function)[:2]
                    why = session.pick("many_visits", place=place)
                    yield from session.pass_visits(why, self._point, left, watch)
                    continue
                why = session.pick(self._next_visit, seen=visits, wanted=self.hit)
            else:
                why = session.pick("not_yet", here=stopped.place, place=place)
            yield from session.control(why, "continue")
        return False

    def is_there(self, stopped: Stopped) -> bool:
        """Whether a stop is at the line, in its function or its lambda, and not after its end."""
        here, wanted = (
            (at.file, at.line, at.function.removesuffix(f".{LAMBDA}"))
            for at in (stopped, self._place)
        )
        return here == wanted and not stopped.post_mortem

    def _choose(self) -> Callable[[], Moves[None]]:
        if self._habits.direct:
            return self._straight
        ways = [self._straight, self._straight, self._from_test, self._wrong_guess]
        if self._place.function and not self._is_recursive():
            ways += [self._by_function, self._on_foot]
        return self._rng.choice(ways)

    def _straight(self) -> Moves[None]:
        why = self._session.pick("start", place=self._place, aim=self._aim)
        yield from self._session.start(why, [self._point], self._habits.detour(0.25))

    def _from_test(self) -> Moves[None]:
        session = self._session
        why = session.pick("start_at_test")
        earlier = self._rng.random() < 0.5
        yield from session.start(why, [self._point] if earlier else [], True)
        if earlier or session.paused is None or self.is_there(session.paused):
            return
        # Module-level code ran before the test begins, so its visits would be missed now.
        yield from session.set_breakpoint(f"Now a breakpoint at {self._place}.", self._point)
        yield from session.control("I run on to it from the start.", "restart")

    def _by_function(self) -> Moves[None]:
        """Stop at the function, look at its arguments, and continue to the line."""
        session, name = self._session, self._place.function
        why = f"I stop where `{name}` is entered, and at the line."
        yield from session.start(why, [name, self._point], False)
        if session.paused is not None and not self.is_there(session.paused):
            yield from session.locals(f"With which arguments is `{name}` called?")

    def _on_foot(self) -> Moves[None]:
        """Stop at the function and step; the line's own breakpoint counts its visits."""
        session, name = self._session, self._place.function
        why = f"I enter `{name}` and step through it."
        yield from session.start(why, [name, self._point], False)
        for _ in range(MAX_STEPS):
            stopped = session.paused
            if stopped is None or self.is_there(stopped) or stopped.function != name:
                return
            yield from session.control(f"At {stopped.place}; I step on.", "step_over")

    def _wrong_guess(self) -> Moves[None]:
        """Stop elsewhere first, notice it, and restart."""
        session, wrong = self._session, self._other_line()
        if wrong is None:
            yield from self._straight()
            return
        point = f"{self._place.file}:{wrong}"
        yield from session.start(session.pick("guess", place=point), [point], False)
        here = session.stopped.place if session.stopped is not None else "the end of the test"
        why = session.pick("wrong_place", here=here, place=self._place)
        stopped = session.paused
        if stopped is not None and self._rng.random() < 0.4:
            yield from session.locals("What is going on here?")
        if stopped is None or self._rng.random() < 0.5:
            yield from session.start(why, [self._point], False)
            return
        yield from session.set_breakpoint(why, self._point)
        for number in stopped.numbers:
            yield from session.remove_breakpoint("The other one is of no use.", number)
        yield from session.control("Once more from the start.", "restart")

    def _other_line(self) -> int | None:
        """A statement nearby, in another function if there is one."""
        wanted = self._place.line
        own = function_at(self._source, wanted)
        lines = [
            line
            for function in self._source.functions
            for line in self._source.stops(function)
            if function != own or abs(line - wanted) > 1
        ]
        near = sorted(lines, key=lambda line: abs(line - wanted))[:6]
        return self._rng.choice([line for line in near if line != wanted] or [None])

    def _is_recursive(self) -> bool:
        function = function_at(self._source, self._place.line)
        if function is None:
            return True
        body = "\n".join(self._lines[function.line : function.last])
        name = self._place.function.rpartition(".")[2]
        return re.search(rf"\b{re.escape(name)}\(", body) is not None
