"""The oracle as main agent: it can edit, but has to be told which of its candidates is right."""

from __future__ import annotations

import random
from collections.abc import Generator

from collect.agents.config import Variant
from collect.benchmarks.base import Instance
from collect.messages import Message
from collect.models.oracle.candidates import Candidate, choose, make_candidates
from collect.models.oracle.scripted import Turns, say
from collect.models.oracle.test_runs import test_runs

ROOT_CAUSE = (
    "Where does the value that makes this test fail first go wrong, and what are the values there?",
    "What is the root cause of this failure: which line computes the first wrong value?",
    "Which statement first produces a wrong result while this test runs, and from what values?",
)
EXCEPTION_ORIGIN = (
    "What causes the {exception} in this test, and which line first goes wrong?",
    "Where does the {exception} that ends this test come from?",
)


class OracleMain:
    """One attempt at one bug. It makes one choice, and lives with it."""

    def __init__(self, instance: Instance, variant: str, count: int, rng: random.Random) -> None:
        self._variant = Variant(variant)
        self._tests = instance.fail_to_pass
        self._runs = test_runs(instance)
        self._candidates = make_candidates(instance, count, rng)
        self._rng = rng

    def turns(self, task: str) -> Turns:
        """Reproduce, ask, choose, edit, check, stop."""
        seen = yield say(
            "I reproduce the problem first.", ("bash", {"command": self._runs.run_every()})
        )
        test = self._runs.failing(seen[0], self._tests)
        chosen = yield from self._decide(test, seen[0])
        yield say(
            f"I change {chosen.place}.",
            *(
                ("edit_file", {"path": e.path, "old_string": e.old, "new_string": e.new})
                for e in chosen.edits
            ),
        )
        again = {"command": self._runs.run_one(test)}
        yield say("I run the failing test again.", ("bash", again))
        yield say(self.last_word())

    def last_word(self) -> str:
        """The closing summary."""
        return "I changed the code where the wrong value came from."

    def _decide(self, test: str, output: str) -> Generator[Message, list[str], Candidate]:
        if self._variant.has_subagent:
            seen = yield say(
                "I ask the debugger where this goes wrong before I change anything.",
                ("debug_subagent", {"question": self._ask(output), "test": test}),
            )
            return choose(seen[0], self._candidates, self._rng)
        if self._variant is Variant.DEBUG_TOOLS_ONLY:
            return (yield from self._debug(test))
        return self._rng.choice(self._candidates)

    def _ask(self, output: str) -> str:
        raised = self._runs.exception(output)
        if raised:
            question = self._rng.choice(EXCEPTION_ORIGIN).format(exception=raised)
        else:
            question = self._rng.choice(ROOT_CAUSE)
        suspects = ", ".join(
            f"{candidate.place} ({candidate.function or 'module level'})"
            for candidate in self._candidates
        )
        return f"{question} I suspect one of these places: {suspects}."

    def _debug(self, test: str) -> Generator[Message, list[str], Candidate]:
        """Stop at the suspects with the tools themselves, and take the first that is reached."""
        places = [candidate.place for candidate in self._candidates]
        seen = yield say(
            "I run the test under the debugger.",
            (
                "debug_start_session",
                {"test": test, "breakpoints": places, "stop_at_test": False},
            ),
        )
        yield say("I look at the values here.", ("debug_inspect", {"what": "locals"}))
        yield say("I have seen enough.", ("debug_control", {"action": "terminate"}))
        return choose(seen[0], self._candidates, self._rng)
