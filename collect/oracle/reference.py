"""Reference points for a Debug Subagent: rules that answer without understanding the bug.

If the question suspects several places, a rule names one of them, so that its score shows how much
of the oracle's gain as main agent needs no debugging.
"""

from __future__ import annotations

from collect.benchmarks.base import Instance
from collect.code.source import NOTHING, find_test, function_at, read_source
from collect.models.config import OracleAnswer
from collect.oracle.candidates import places_in
from collect.oracle.scripted import ExplorationPolicy, Turns, answer_block, say
from collect.oracle.session import Moves, Session


class ReferenceSubagent:
    """One answer by a rule, see `OracleConfig.answer`."""

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
        source = read_source(path, self._instance.files.get(path, b"")) or NOTHING
        found = function_at(source, int(line))
        name = found.name.rpartition(".")[2] if found else ""
        file, test = find_test(self._instance.files, self._session.test)
        text = self._instance.files.get(file, b"").decode("utf-8", "replace")
        text = text[max(text.find(f"{test}("), 0) :]
        position = text.find(f"{name}(")
        return position if name and position >= 0 else len(text)
