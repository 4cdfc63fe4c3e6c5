"""The oracle as Debug Subagent: it knows the fault and goes there with the debugger.

It reports only what the debugger showed it. If the question names suspects, it mostly stops at all
of them: an agent without its knowledge can find out which are reached, so a model can learn that.
"""

from __future__ import annotations

import re
from collections.abc import Generator

from collect.agents.subagent_task import read_start, read_subagent_task
from collect.benchmarks.base import Instance
from collect.code.patches import changed_lines
from collect.code.source import NOTHING, Place, function_at, places_of, read_source
from collect.oracle.candidates import LOCATION
from collect.oracle.scripted import ExplorationPolicy, Turns, say
from collect.store.messages import Message
from sandbox.text import source_lines

PAUSED = re.compile(
    r"^Paused at (?P<file>.+?):(?P<line>\d+) in (?P<function>\S+) \((?!post mortem)"
)
BREAKPOINT = re.compile(r"^Paused at .* \(breakpoint (\d+)", re.MULTILINE)
VALUE = re.compile(r"^(?P<name>\S.*?) = (?P<text>.*)$", re.MULTILINE)
RETURNED = re.compile(r"^Returned from (?P<name>.+?): (?P<text>.*)$", re.MULTILINE)
EXCEPTION = re.compile(r"^Exception: (?P<type>[\w.$]+)", re.MULTILINE)
MAX_CONTINUES = 4
IGNORES_SUSPECTS = 0.2
"""Probability of ignoring the suspects, if there are any."""
MAX_PROBES = 3
MAX_EVIDENCE = 8


class OracleSubagent:
    """One investigation."""

    def __init__(self, instance: Instance, habits: ExplorationPolicy) -> None:
        self._instance = instance
        self._places = places_of(instance.files, changed_lines(instance.gold_patch))
        self._habits = habits
        self._question = ""
        self._opening = ""
        self._findings: list[str] = []
        self._outcome = ""
        self._stopped_at: str | None = None
        self._never_run = ""
        self._investigate(self._places[0])

    def _investigate(self, place: Place) -> None:
        self._place, self._path = place, place.path
        data = self._instance.files[place.path]
        self._lines = source_lines(data.decode("utf-8", "replace"))
        self._source = read_source(place.path, data) or NOTHING

    def turns(self, task: str) -> Turns:
        """Read the code, run to the suspicious line, look, step, and answer."""
        asked = read_subagent_task(task)
        self._question, test = (asked.question, asked.test) if asked else ("", "")
        self._opening = read_start(task)
        named = LOCATION.findall(self._question)
        suspects = list(dict.fromkeys(f"{path}:{line}" for path, line in named))
        targets = [f"{place.path}:{place.line}" for place in self._places]
        if len(suspects) > 1 and not self._habits.detour(IGNORES_SUSPECTS):
            at_place = yield from self._visit(test, suspects, targets)
        else:
            yield from self._read()
            at_place = yield from self._go_to(test, targets, "I start the test under the debugger")
        if not at_place:
            at_place = yield from self._go_to_entry(test)
        if at_place:
            yield from self._look()
            yield from self._see_failure()
        yield say(self.last_word())

    def last_word(self) -> str:
        """The answer block, from what has been observed so far."""
        where = self._never_run or self._stopped_at or "not reached"
        evidence = "; ".join(self._findings[:MAX_EVIDENCE]) or "none"
        return (
            "<debug_answer>\n"
            f"**Question**: {self._question}\n"
            f"**Answer**: {self._conclusion()}\n"
            f"**Evidence**: {evidence}\n"
            f"**Location**: {where}\n"
            "</debug_answer>"
        )

    def _read(self) -> Turns:
        found = function_at(self._source, self._place.line)
        first = found.line if found else max(self._place.line - 15, 1)
        last = found.last if found else self._place.line + 15
        observed = "the code around it" if not found else f"`{found.name}`"
        yield say(
            f"I will read {observed} before I stop there.",
            ("read_file", {"path": self._path, "start_line": first, "end_line": last}),
        )

    def _go_to(
        self, test: str, targets: list[str], what: str
    ) -> Generator[Message, list[str], bool]:
        """Run to the first of these that is reached. False if none is."""
        plural = "s" if len(targets) > 1 else ""
        where = f"{'' if plural else 'a '}breakpoint{plural} at {' and '.join(targets)}"
        seen = yield from self._start(f"{what} with {where}.", test, targets, True)
        for _ in range(MAX_CONTINUES):
            stop = PAUSED.search(seen[0])
            if stop is None:
                self._note_outcome(seen[0])
                return False
            if self._at_place(stop):
                self._note_stop(stop)
                return True
            seen = yield say(
                f"Paused in {stop['function']}; I continue to the breakpoint{plural}.",
                ("debug_control", {"action": "continue"}),
            )
        return False

    def _start(
        self, why: str, test: str, points: list[str], at_test: bool
    ) -> Generator[Message, list[str], list[str]]:
        """Run to the first of these places, in the session that is open where the test begins, or
        else in a new one.
        """
        opening, self._opening = self._opening, ""
        # Code of a module has already run there.
        if "(entry" not in opening.partition("\n")[0] or not self._place.function:
            arguments: dict[str, object] = {"test": test, "breakpoints": points}
            if not at_test:
                arguments["stop_at_test"] = False
            return (yield say(why, ("debug_start_session", arguments)))
        calls = [("debug_breakpoint", {"action": "set", "location": each}) for each in points]
        yield say(
            f"The session is open. I set {'breakpoints' if points[1:] else 'a breakpoint'} "
            f"at {' and '.join(points)}.",
            *calls,
        )
        return (yield say("I let the test run.", ("debug_control", {"action": "continue"})))

    def _visit(
        self, test: str, suspects: list[str], targets: list[str]
    ) -> Generator[Message, list[str], bool]:
        """Stop at each suspect that is reached, up to one at the fault."""
        breakpoints = list(dict.fromkeys([*suspects, *targets]))
        why = "I stop at every suspect, and see which of them this test reaches."
        seen = yield from self._start(why, test, breakpoints, False)
        for _ in breakpoints:
            stop = PAUSED.search(seen[0])
            if stop is None:
                self._note_outcome(seen[0])
                return False
            here = f"{stop['file']}:{stop['line']}"
            # A wrong suspect may lie in the same function as the right one.
            if here in targets and self._at_place(stop):
                self._note_stop(stop)
                return True
            if self._habits.detour(0.5):
                yield say(f"{here} is reached. On what?", ("debug_inspect", {"what": "locals"}))
            number = BREAKPOINT.search(seen[0])
            if number:
                yield say(
                    f"Nothing is wrong at {here} yet; I need not stop there again.",
                    ("debug_breakpoint", {"action": "remove", "number": int(number[1])}),
                )
            seen = yield say(
                "I go on to the next suspect.", ("debug_control", {"action": "continue"})
            )
        return False

    def _go_to_entry(self, test: str) -> Generator[Message, list[str], bool]:
        """The line never runs: see whether its function does, and with which values."""
        aimed = f"{self._path}:{self._place.line}"
        found = function_at(self._source, self._place.line)
        entry = min(self._source.stops(found), default=self._place.line) if found else None
        if entry is None or entry == self._place.line:
            return False
        reached = yield from self._go_to(
            test, [f"{self._path}:{entry}"], f"{aimed} is never run. I start the test again"
        )
        if reached:
            self._never_run = aimed
        return reached

    def _at_place(self, stop: re.Match[str]) -> bool:
        """Whether it is in a function that may hold the fault; if so, keep that function."""
        for place in self._places:
            source = read_source(place.path, self._instance.files[place.path]) or NOTHING
            found = function_at(source, int(stop["line"]))
            name = found.name if found else ""
            if (stop["file"], name) == (place.path, place.function):
                self._investigate(place)
                return True
        return False

    def _note_stop(self, stop: re.Match[str]) -> None:
        self._stopped_at = f"{stop['file']}:{stop['line']}"
        self._stopped_line = int(stop["line"])
        self._stopped_in = stop["function"]

    def _look(self) -> Turns:
        seen = yield say(
            "This is the code in question. Which values does it work on?",
            ("debug_inspect", {"what": "locals"}),
        )
        used = self._source.probes(self._stopped_line, self._stopped_in)
        known = {value["name"]: value for value in VALUE.finditer(seen[0])}
        # If a line never runs, the function's arguments show why.
        for name in dict.fromkeys([*used, *known]) if self._never_run else used:
            if name in known:
                self._note(known[name])
        for expression in [e for e in used if e not in known][:MAX_PROBES]:
            yield from self._evaluate(f"I check `{expression}` here.", expression)
        if self._habits.detour(0.5):
            yield say("Who called this?", ("debug_inspect", {"what": "stack"}))
        seen = yield say(
            "I execute this line and see what it does.", ("debug_control", {"action": "step_over"})
        )
        returned = RETURNED.search(seen[0])
        if returned:
            self._findings.append(f"{returned['name']} returned {returned['text']}")
        stop = PAUSED.search(seen[0])
        if stop and stop["function"] == self._stopped_in:
            for target in self._source.assigned(self._stopped_line):
                yield from self._evaluate(f"What is `{target}` now?", target, after=True)

    def _evaluate(self, why: str, expression: str, after: bool = False) -> Turns:
        seen = yield say(why, ("debug_inspect", {"what": "evaluate", "expression": expression}))
        value = VALUE.search(seen[0])
        if value:
            self._note(value, after)

    def _see_failure(self) -> Turns:
        if not self._habits.detour(0.5):
            return
        seen = yield say(
            "I let the test run on, to see how it ends.",
            ("debug_control", {"action": "continue"}),
        )
        if PAUSED.search(seen[0]) is None:
            self._note_outcome(seen[0])

    def _note(self, value: re.Match[str], after: bool = False) -> None:
        when = "afterwards " if after else ""
        self._findings.append(f"{when}{value['name']} = {value['text'].strip()}")

    def _note_outcome(self, text: str) -> None:
        raised = EXCEPTION.search(text)
        if raised:
            self._outcome = f" The test then fails with {raised['type']}."

    def _conclusion(self) -> str:
        if self._stopped_at is None:
            return f"The debugger did not stop in the code in question.{self._outcome}"
        text = self._lines[self._stopped_line - 1].strip()
        function = self._place.function or "module level"
        values = f", where {'; '.join(self._findings[:2])}" if self._findings else ""
        if self._never_run:
            aimed = self._lines[self._place.line - 1].strip()
            return (
                f"{function} is entered at {self._stopped_at}{values}, but never gets to "
                f"{self._never_run}, `{aimed}`.{self._outcome}"
            )
        return (
            f"The values go wrong in {function} at {self._stopped_at}, in `{text}`{values}."
            f"{self._outcome}"
        )


class SilentSubagent:
    """A subagent that answers nothing, to measure the main oracle on its own."""

    def turns(self, task: str) -> Turns:
        yield say(self.last_word())

    def last_word(self) -> str:
        """A valid answer without content."""
        return (
            "<debug_answer>\n**Question**: as asked\n**Answer**: I could not establish this.\n"
            "**Evidence**: none\n**Location**: unknown\n</debug_answer>"
        )
