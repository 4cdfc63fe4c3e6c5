"""Moves in a debug session, and parsers for their observations."""

from __future__ import annotations

import random
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from collect.oracle.scripted import ExplorationPolicy, say
from collect.store.messages import Message

Result = TypeVar("Result")
Moves = Generator[Message, list[str], Result]

PAUSED = re.compile(
    r"^Paused at (?P<file>.+?):(?P<line>\d+) in (?P<function>\S+) \((?P<reason>.*)\)$", re.MULTILINE
)
ENDED = re.compile(r"^Program ended with exit code (?P<code>-?\d+)", re.MULTILINE)
RAISED = re.compile(r"^Exception: (?P<type>[\w.$]+)(?:: (?P<message>.*))?$", re.MULTILINE)
VALUE = re.compile(
    r"^(?P<name>\S.*?) = (?P<text>.*?)(?:  \((?P<type>[\w.$, <>\[\]]+)\))?$", re.MULTILINE
)
FRAME = re.compile(
    r"^#(?P<index>\d+) (?P<file>.+?):(?P<line>\d+) in (?P<function>\S+)", re.MULTILINE
)
NUMBERS = re.compile(r"breakpoint (?P<numbers>\d+(?:, \d+)*)")
POST_MORTEM = "post mortem"


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
        return self.reason.startswith(POST_MORTEM)

    @property
    def place(self) -> str:
        """`file:line`."""
        return f"{self.file}:{self.line}"

    @property
    def numbers(self) -> list[int]:
        """Numbers of the breakpoints that were hit."""
        found = NUMBERS.search(self.reason)
        return [int(n) for n in found["numbers"].split(",")] if found else []

    @property
    def raised(self) -> re.Match[str] | None:
        """The exception, if there is one."""
        return RAISED.search(self.text)


@dataclass
class Session:
    """What has been done and seen so far."""

    test: str
    habits: ExplorationPolicy
    evidence: list[str] = field(default_factory=list)
    stopped: Stopped | None = None
    """None if the program has ended or was never started."""
    exit_code: int | None = None
    place: str = ""
    """The last relevant place."""
    opening: str = ""
    """The start of the session that was opened with the task; empty if none is open."""

    @property
    def rng(self) -> random.Random:
        """Random source for the choice of words."""
        return self.habits.rng

    def do(self, why: str, name: str, **arguments: Any) -> Moves[str]:
        """Make one call and return its answer."""
        seen = yield say(why, (name, arguments))
        return seen[0]

    def start(self, why: str, points: Sequence[str], stop_at_test: bool) -> Moves[Stopped | None]:
        """Start the test. Returns its first stop, or None if it has ended."""
        opening, self.opening = self.opening, ""
        if stop_at_test and not points and "(entry" in opening.partition("\n")[0]:
            return self._came_to(opening)
        arguments: dict[str, Any] = {"test": self.test}
        if points:
            arguments["breakpoints"] = list(points)
        if not stop_at_test or self.habits.detour(0.3):
            arguments["stop_at_test"] = stop_at_test
        text = yield from self.do(why, "debug_start_session", **arguments)
        return self._came_to(text)

    def control(self, why: str, action: str) -> Moves[Stopped | None]:
        """Continue, step, restart."""
        text = yield from self.do(why, "debug_control", action=action)
        return self._came_to(text)

    def set_breakpoint(self, why: str, location: str, **more: Any) -> Moves[str]:
        """Set a breakpoint and return the debugger's answer."""
        text = yield from self.do(why, "debug_breakpoint", action="set", location=location, **more)
        return text

    def remove_breakpoint(self, why: str, number: int) -> Moves[None]:
        yield from self.do(why, "debug_breakpoint", action="remove", number=number)

    def evaluate(self, why: str, expression: str, frame: int = 0) -> Moves[str | None]:
        """The text of a value, or None if it can't be evaluated."""
        more = {"frame": frame} if frame else {}
        text = yield from self.do(
            why, "debug_inspect", what="evaluate", expression=expression, **more
        )
        prefix = f"{expression} = "
        if not text.startswith(prefix):
            return None
        found = VALUE.match("x = " + text.removeprefix(prefix))
        return found["text"].strip() if found else None

    def locals(self, why: str, frame: int = 0) -> Moves[Mapping[str, str]]:
        """The variables of a frame."""
        more = {"frame": frame} if frame else {}
        text = yield from self.do(why, "debug_inspect", what="locals", **more)
        return values(text)

    def fields(self, why: str, expression: str) -> Moves[Mapping[str, str]]:
        """The contents of an object."""
        text = yield from self.do(why, "debug_inspect", what="fields", expression=expression)
        return values(text)

    def stack(self, why: str) -> Moves[list[Mapping[str, str]]]:
        """The frames, innermost first."""
        text = yield from self.do(why, "debug_inspect", what="stack")
        return [frame.groupdict() for frame in FRAME.finditer(text)]

    def read(self, why: str, path: str, first: int, last: int) -> Moves[str]:
        text = yield from self.do(
            why, "read_file", path=path, start_line=max(first, 1), end_line=last
        )
        return text

    def note(self, text: str) -> None:
        """Record an observation that is relevant to the question."""
        if text not in self.evidence:
            self.evidence.append(text)

    def _came_to(self, text: str) -> Stopped | None:
        paused, ended = PAUSED.search(text), ENDED.search(text)
        self.stopped = None
        if paused:
            named = paused.groupdict()
            self.stopped = Stopped(
                named["file"], int(named["line"]), named["function"], named["reason"], text
            )
        elif ended:
            self.exit_code = int(ended["code"])
        return self.stopped


def values(text: str) -> dict[str, str]:
    """All values in an observation, by name."""
    return {found["name"]: found["text"].strip() for found in VALUE.finditer(text)}
