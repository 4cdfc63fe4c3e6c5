"""The oracle as Debug Subagent: it knows the fault and goes there with the debugger.

It reports only what the debugger showed it. If the question names suspects, it mostly stops at all
of them: an agent without its knowledge can find out which are reached, so a model can learn that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from collect.benchmarks.base import Instance
from collect.code.source import (
    Place,
    changed_code,
    find_test,
    function_at,
    places_of,
    read_source,
)
from collect.comparison import Comparison, Visit
from collect.models.config import OracleAnswer
from collect.oracle.candidates import places_in
from collect.oracle.root_cause import RETURNED
from collect.oracle.scripted import ExplorationPolicy, Turns, answer_block, say
from collect.oracle.session import LineNavigator, Moves, Session, Stopped, values_shown
from collect.question_records import Location
from sandbox.text import source_lines

MAX_CONTINUES = 4
IGNORES_SUSPECTS = 0.2
"""Probability of ignoring the suspects, if there are any."""
MAX_PROBES = 3
MAX_EVIDENCE = 8


class OracleSubagent:
    """One investigation."""

    def __init__(
        self,
        instance: Instance,
        habits: ExplorationPolicy,
        compare: Callable[[str], Comparison | None] | None = None,
    ) -> None:
        self._instance, self._habits, self._compare = instance, habits, compare
        self._wrong: Visit | None = None
        """The visit that goes wrong, if it is known."""
        self._places = places_of(instance.files, changed_code(instance.files, instance.gold_patch))
        self._session = Session(habits)
        self._findings: list[str] = []
        self._outcome = ""
        self._stop: Stopped | None = None
        """The stop in the function at fault."""
        self._never_run = ""
        self._investigate(self._places[0])

    def _investigate(self, place: Place) -> None:
        self._place = place
        data = self._instance.files[place.path]
        self._lines = source_lines(data.decode("utf-8", "replace"))
        self._source = read_source(place.path, data)

    def turns(self, task: str) -> Turns:
        """Read the code, run to the suspicious line, look, step, and answer."""
        session = self._session
        session.take(task)
        self._find_wrong_visit()
        suspects = places_in(session.question)
        targets = [f"{place.path}:{place.line}" for place in self._places]
        if len(suspects) > 1 and not self._habits.detour(IGNORES_SUSPECTS):
            yield from self._visit(suspects, targets)
        else:
            found = function_at(self._source, self._place.line)
            first = found.line if found else max(self._place.line - 15, 1)
            last = found.last if found else self._place.line + 15
            code = f"`{found.name}`" if found else "the code around it"
            why = f"I will read {code} before I stop there."
            yield from session.read(why, self._place.path, first, last)
            yield from self._go_to(targets, "I start the test under the debugger")
        if self._stop is not None and self._wrong is not None:
            yield from self._go_on(self._stop, self._wrong.hit)
        elif self._stop is None:
            yield from self._go_to_entry()
        if self._stop is not None:
            yield from self._look(self._stop)
            if self._habits.detour(0.5):
                yield from self._run_on(self._stop)
        yield say(self.last_word())

    def _run_on(self, stop: Stopped) -> Moves[None]:
        """To the test's end, past what else stops it."""
        session = self._session
        yield from session.go_on("I let the test run on, to see how it ends.", stop)
        for _ in range(MAX_CONTINUES):
            if session.paused is None:
                break
            why = f"It comes to {session.paused.place} afterwards. I go on to the test's end."
            yield from session.go_on(why)
        self._note_outcome()

    def last_word(self) -> str:
        evidence = "; ".join(self._findings[:MAX_EVIDENCE])
        where = self._never_run or (self._stop.place if self._stop else self._session.nowhere)
        return answer_block(self._session.question, self._conclusion(), evidence, where)

    def _find_wrong_visit(self) -> None:
        comparison = self._compare(self._session.test) if self._compare is not None else None
        if comparison is not None and comparison.place is not None:
            self._wrong, self._places = comparison.visit, [comparison.place]
            self._investigate(comparison.place)

    def _go_on(self, stop: Stopped, hit: int) -> Moves[None]:
        """From the first visit of a line to the one that goes wrong."""
        session, line = self._session, stop.line
        at = Location(file=stop.file, line=line, last_line=line, function=stop.function)
        way = LineNavigator(self._instance, session, at, hit, next_visit="not_wrong_yet")
        there = yield from way.arrive()
        self._stop = session.paused if there else None
        if not there:
            self._note_outcome()

    def _go_to(self, targets: list[str], what: str) -> Moves[None]:
        """Run to the first of these that is reached."""
        session, plural = self._session, "s" if len(targets) > 1 else ""
        where = f"{'' if plural else 'a '}breakpoint{plural} at {' and '.join(targets)}"
        yield from self._start(f"{what} with {where}.", targets)
        for _ in range(MAX_CONTINUES):
            stop = session.paused
            if stop is None:
                self._note_outcome()
                return
            if self._is_at_fault(stop):
                return
            why = f"Paused in {stop.function}; I continue to the breakpoint{plural}."
            yield from session.control(why, "continue")

    def _start(self, why: str, points: list[str], **more: Any) -> Moves[None]:
        """Run to the first of these places, in the session that is open where the test begins, or
        else in a new one.
        """
        session = self._session
        is_opened = session.is_opened_at(points)
        opening, session.opening = session.opening, ""
        if is_opened:
            session.came_to(opening)
            return
        # Code of a module has already run there.
        if "(entry" not in opening.partition("\n")[0] or not self._place.function:
            asked = {**session.named_test, "breakpoints": points, **more}
            session.came_to((yield from session.do(why, "debug_start_session", **asked)))
            return
        calls = [("debug_breakpoint", {"action": "set", "location": each}) for each in points]
        yield say(
            f"The session is open. I set {'breakpoints' if points[1:] else 'a breakpoint'} "
            f"at {' and '.join(points)}.",
            *calls,
        )
        yield from session.control("I let the test run.", "continue")

    def _visit(self, suspects: list[str], targets: list[str]) -> Moves[None]:
        """Stop at each suspect that is reached, up to one at the fault."""
        session = self._session
        points = list(dict.fromkeys([*suspects, *targets]))
        why = "I stop at every suspect, and see which of them this test reaches."
        yield from self._start(why, points, stop_at_test=False)
        for _ in points:
            stop = session.paused
            if stop is None:
                self._note_outcome()
                return
            # A wrong suspect may lie in the same function as the right one.
            if stop.place in targets and self._is_at_fault(stop):
                return
            if self._habits.detour(0.5):
                yield from session.locals(f"{stop.place} is reached. On what?")
            why = f"{stop.place} is reached, before anything fails. I go on to the next suspect."
            yield from session.go_on(why)

    def _go_to_entry(self) -> Moves[None]:
        """The line never runs: see whether its function does, and with which values."""
        aimed = f"{self._place.path}:{self._place.line}"
        found = function_at(self._source, self._place.line)
        entry = min(self._source.stops(found), default=self._place.line) if found else None
        if entry is None or entry == self._place.line:
            return
        points = [f"{self._place.path}:{entry}"]
        seen = f"{aimed} is never run."
        if self._session.has_children:
            seen = f"The debugger did not stop at {aimed}."
        yield from self._go_to(points, f"{seen} I start the test again")
        if self._stop is not None and not self._session.has_children:
            self._never_run = aimed

    def _is_at_fault(self, stop: Stopped) -> bool:
        """Whether it is in a function that may hold the fault; if so, keep that function."""
        for place in self._places:
            source = read_source(place.path, self._instance.files[place.path])
            found = function_at(source, stop.line)
            if (stop.file, found.name if found else "") == (place.path, place.function):
                self._investigate(place)
                self._stop = stop
                return True
        return False

    def _look(self, stop: Stopped) -> Moves[None]:
        session = self._session
        why = "This is the code in question. Which values does it work on?"
        seen = yield from session.do(why, "debug_inspect", what="locals")
        used = self._source.probes(stop.line, stop.function)
        known = values_shown(seen, remarks=True)
        # If a line never runs, the function's arguments show why.
        for name in dict.fromkeys([*used, *known]) if self._never_run else used:
            if name in known:
                self._findings.append(f"{name} = {known[name]}")
        for expression in [each for each in used if each not in known][:MAX_PROBES]:
            yield from self._evaluate(f"I check `{expression}` here.", expression, "")
        if self._habits.detour(0.5):
            yield from session.stack("Who called this?")
        stepped = yield from session.control(
            "I execute this line and see what it does.", "step_over"
        )
        returned = RETURNED.search(stepped.text) if stepped is not None else None
        if returned:
            end = returned["type"] or " ..."
            self._findings.append(f"{returned['name']} returned {returned['text']}{end}")
        if session.paused is not None and session.paused.function == stop.function:
            for target in self._source.assigned(stop.line):
                yield from self._evaluate(f"What is `{target}` now?", target, "afterwards ")

    def _evaluate(self, why: str, expression: str, when: str) -> Moves[None]:
        seen = yield from self._session.do(
            why, "debug_inspect", what="evaluate", expression=expression
        )
        for name, text in list(values_shown(seen, remarks=True).items())[:1]:
            self._findings.append(f"{when}{name} = {text}")

    def _note_outcome(self) -> None:
        """Note the exception that has ended the test."""
        stop = self._session.stopped
        if stop is not None and stop.post_mortem and stop.raised is not None:
            self._outcome = f" The test then fails with {stop.raised['type']}."

    def _conclusion(self) -> str:
        if self._stop is None:
            return f"The debugger did not stop in the code in question.{self._outcome}"
        function, place = self._place.function or "module level", self._stop.place
        values = f", where {'; '.join(self._findings[:2])}" if self._findings else ""
        line = self._place.line if self._never_run else self._stop.line
        text = self._lines[line - 1].strip()
        told = f"The code in question is {function} at {place}, in `{text}`{values}."
        if self._wrong is not None:
            visit = f", on visit {self._wrong.hit}" if self._wrong.hit > 1 else ""
            told = f"The values go wrong in {function} at {place}{visit}, in `{text}`{values}."
        if self._never_run:
            entered = f"{function} is entered at {place}{values}"
            told = f"{entered}, but never gets to {self._never_run}, `{text}`."
        return f"{told}{self._outcome}"


class ReferenceSubagent:
    """A reference point, which answers by a rule without understanding the bug, see
    `OracleConfig.answer`: how much of the oracle's gain as main agent needs no debugging."""

    def __init__(self, instance: Instance, rule: OracleAnswer, habits: ExplorationPolicy) -> None:
        self._instance, self._rule = instance, rule
        self._rng, self._session = habits.rng, Session(habits)
        self._named = ""

    def turns(self, task: str) -> Turns:
        """Name a suspect, after a debug session if the rule needs one."""
        self._session.take(task)
        suspects = places_in(self._session.question)
        if suspects and self._rule == "random":
            self._named = self._rng.choice(suspects)
        elif suspects and self._rule == "source":
            self._named = min(suspects, key=self._first_mention)
        elif suspects and self._rule in ("first_reached", "last_reached"):
            yield from self._stop_at(suspects)
        yield say(self.last_word())

    def last_word(self) -> str:
        question, place = self._session.question or "as asked", self._named
        if not place:
            return answer_block(question, "I could not establish this.", "", "unknown")
        return answer_block(question, f"It goes wrong at {place}.", "", place)

    def _stop_at(self, suspects: list[str]) -> Moves[None]:
        session = self._session
        yield from session.start("I stop at every suspect.", suspects, False)
        while session.paused is not None:
            self._named = session.paused.place
            if self._rule == "first_reached":
                return
            # Not again in every round of a loop, which would use up the steps.
            yield from session.go_on("I go on to the next suspect.")

    def _first_mention(self, suspect: str) -> int:
        """Where the test's code, or what follows it in its file, first mentions the suspect's
        function."""
        path, _, line = suspect.rpartition(":")
        source = read_source(path, self._instance.files.get(path, b""))
        found = function_at(source, int(line))
        name = found.name.rpartition(".")[2] if found else ""
        file, test = find_test(self._instance.files, self._session.test)
        text = self._instance.files.get(file, b"").decode("utf-8", "replace")
        text = text[max(text.find(f"{test}("), 0) :]
        position = text.find(f"{name}(")
        return position if name and position >= 0 else len(text)
