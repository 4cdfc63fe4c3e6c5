"""Ways to reach the n-th visit of a line: like a developer, not always the shortest."""

from __future__ import annotations

import re
from collections.abc import Callable

from collect.benchmarks.base import Instance
from collect.code.source import function_at, read_source
from collect.oracle.questions import wording as words
from collect.oracle.questions.session import Moves, Session, Stopped
from collect.question_records import Location
from sandbox.text import source_lines

MAX_STEPS = 6
"""Single steps before it sets a breakpoint instead."""
MAX_STOPS = 12
"""Stops elsewhere, and earlier visits, on the way."""


class LineNavigator:
    """Goes to one visit of one line."""

    def __init__(
        self, instance: Instance, session: Session, place: Location, hit: int, aim: str = ""
    ) -> None:
        """`aim` continues a sentence that names the place: what to do there."""
        self._instance, self._session, self._place, self._hit = instance, session, place, hit
        self._aim = aim
        self._rng, self._habits = session.rng, session.habits
        self.visits = 0

    def go(self) -> Moves[bool]:
        """Whether the program is now paused at that visit."""
        yield from self._read_first()
        stopped = yield from self._choose()()
        return (yield from self._until(stopped))

    def _choose(self) -> Callable[[], Moves[Stopped | None]]:
        if self._habits.direct:
            return self._straight
        ways: list[Callable[[], Moves[Stopped | None]]] = [
            self._straight,
            self._straight,
            self._from_test,
            self._wrong_guess,
        ]
        if self._place.function and not self._is_recursive():
            ways += [self._by_function, self._on_foot]
        return self._rng.choice(ways)

    def is_there(self, stopped: Stopped) -> bool:
        """Whether a stop is at the line, in its function, and not after its end."""
        here = (stopped.file, stopped.line, stopped.function)
        wanted = (self._place.file, self._place.line, self._place.function)
        return here == wanted and not stopped.post_mortem

    def _until(self, stopped: Stopped | None) -> Moves[bool]:
        for _ in range(MAX_STOPS):
            if stopped is None or stopped.post_mortem:
                return False
            if self.is_there(stopped):
                self.visits += 1
                if self.visits == self._hit:
                    self._session.place = str(self._place)
                    return True
                why = words.pick(self._habits, words.NEXT_VISIT, seen=self.visits, wanted=self._hit)
            else:
                why = words.pick(self._habits, words.NOT_YET, here=stopped.place, place=self._place)
            stopped = yield from self._session.control(why, "continue")
        return False

    def _read_first(self) -> Moves[None]:
        if self._habits.detour(0.45):
            line = self._place.line
            around = self._rng.randint(4, 12)
            yield from self._session.read(
                self._rng.choice(
                    (
                        f"I read the code around {self._place} first.",
                        f"What does line {line} do?",
                        "A look at the source before I stop there.",
                    )
                ),
                self._place.file,
                line - around,
                line + around,
            )

    def _straight(self) -> Moves[Stopped | None]:
        why = words.pick(self._habits, words.START, place=self._place, aim=self._aim)
        points = [str(self._place)]
        return (yield from self._session.start(why, points, self._habits.detour(0.25)))

    def _from_test(self) -> Moves[Stopped | None]:
        why = words.pick(self._habits, words.START_AT_TEST)
        earlier = self._rng.random() < 0.5
        points = [str(self._place)] if earlier else []
        stopped = yield from self._session.start(why, points, True)
        if earlier or stopped is None or stopped.post_mortem or self.is_there(stopped):
            return stopped
        # Module-level code ran before the test begins, so its visits would be missed now.
        yield from self._session.set_breakpoint(
            f"Now a breakpoint at {self._place}.", str(self._place)
        )
        return (yield from self._session.control("I run on to it from the start.", "restart"))

    def _by_function(self) -> Moves[Stopped | None]:
        """Stop at the function, look at its arguments, and continue to the line."""
        name = self._place.function
        stopped = yield from self._session.start(
            f"I stop where `{name}` is entered, and at the line.", [name, str(self._place)], False
        )
        if stopped is not None and not stopped.post_mortem and not self.is_there(stopped):
            yield from self._session.locals(f"With which arguments is `{name}` called?")
        return stopped

    def _on_foot(self) -> Moves[Stopped | None]:
        """Stop at the function and step; the line's own breakpoint counts its visits."""
        name = self._place.function
        stopped = yield from self._session.start(
            f"I enter `{name}` and step through it.", [name, str(self._place)], False
        )
        for _ in range(MAX_STEPS):
            if stopped is None or stopped.post_mortem or self.is_there(stopped):
                return stopped
            if stopped.function != name:
                return stopped
            stopped = yield from self._session.control(
                f"At {stopped.place}; I step on.", "step_over"
            )
        return stopped

    def _wrong_guess(self) -> Moves[Stopped | None]:
        """Stop elsewhere first, notice it, and restart."""
        wrong = self._other_line()
        if wrong is None:
            return (yield from self._straight())
        point = f"{self._place.file}:{wrong}"
        stopped = yield from self._session.start(
            words.pick(self._habits, words.GUESS, place=point), [point], False
        )
        here = stopped.place if stopped is not None else "the end of the test"
        why = words.pick(self._habits, words.WRONG_PLACE, here=here, place=self._place)
        if stopped is None or stopped.post_mortem:
            return (yield from self._session.start(why, [str(self._place)], False))
        if self._rng.random() < 0.4:
            yield from self._session.locals("What is going on here?")
        if self._rng.random() < 0.5:
            return (yield from self._session.start(why, [str(self._place)], False))
        yield from self._session.set_breakpoint(why, str(self._place))
        for number in stopped.numbers:
            yield from self._session.remove_breakpoint("The other one is of no use.", number)
        return (yield from self._session.control("Once more from the start.", "restart"))

    def _other_line(self) -> int | None:
        """A statement nearby, in another function if there is one."""
        path = self._place.file
        source = read_source(path, self._instance.files.get(path, b""))
        if source is None:
            return None
        own = function_at(source, self._place.line)
        lines = [
            line
            for function in source.functions
            for line in source.stops(function)
            if function != own or abs(line - self._place.line) > 1
        ]
        near = sorted(lines, key=lambda line: abs(line - self._place.line))[:6]
        return self._rng.choice([n for n in near if n != self._place.line] or [None])

    def _is_recursive(self) -> bool:
        path = self._place.file
        source = read_source(path, self._instance.files.get(path, b""))
        function = function_at(source, self._place.line) if source is not None else None
        if function is None:
            return True
        lines = source_lines(self._instance.files[path].decode("utf-8", "replace"))
        body = "\n".join(lines[function.line : function.last])
        name = self._place.function.rpartition(".")[2]
        return re.search(rf"\b{re.escape(name)}\(", body) is not None
