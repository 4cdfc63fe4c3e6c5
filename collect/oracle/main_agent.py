"""The oracle as main agent: it can edit, but must find out which of its candidates is right."""

from __future__ import annotations

import random
import re
import shlex
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from collect.agents.config import Variant
from collect.benchmarks.base import Instance
from collect.oracle.candidates import Candidate, choose, make_candidates
from collect.oracle.scripted import PHRASES, Turns, say
from collect.store.messages import Message

ASSERTIONS = {"AssertionError", "AssertionFailedError", "ComparisonFailure"}
RAISED = r"([A-Z]\w*(?:Error|Exception))\b"


@dataclass(frozen=True)
class TestRuns:
    """Test commands and output formats for one kind of project."""

    __test__ = False

    every: str
    """Runs every test."""
    one: str
    """Runs one test: `{test}` is its name, `{dotted}` the same with a dot before the method."""
    failed: re.Pattern[str]
    """Finds the name of a failed test: the full name or only its method."""
    raised: re.Pattern[str]
    """Finds the class of the exception that ended a test."""
    shown: str = "2>&1 | tail -{lines}"

    def run_every(self) -> str:
        """The command that runs every test."""
        return f"{self.every} {self.shown.format(lines=60)}"

    def run_one(self, test: str) -> str:
        """The command that runs one test."""
        dotted = test.replace("#", ".")
        command = self.one.format(test=shlex.quote(test), dotted=shlex.quote(dotted))
        return f"{command} {self.shown.format(lines=15)}"

    def failing(self, output: str, tests: Sequence[str]) -> str:
        """The first failed test if it can be identified, else the first of `tests`."""
        known = {test.rpartition("#")[2]: test for test in tests}
        names: list[str] = self.failed.findall(output)
        for name in names:
            if name in known or "::" in name:
                return known.get(name, name)
        return tests[0]

    def exception(self, output: str) -> str | None:
        """The exception of the first failed test, or None for an assertion."""
        raised = self.raised.search(output)
        return raised[1] if raised and raised[1] not in ASSERTIONS else None


_PYTEST = "timeout 60 python -m pytest -q --no-header -p no:cacheprovider"
PYTEST = TestRuns(
    every=_PYTEST,
    one=f"{_PYTEST} {{test}}",
    failed=re.compile(r"^(?:FAILED|ERROR) ([^\s[]+::[^\s[]+(?:\[.*?\](?= - |$))?)", re.MULTILINE),
    raised=re.compile(rf"^E\s+{RAISED}", re.MULTILINE),
)
MAVEN = TestRuns(
    every="timeout 110 mvn -q test",
    one="timeout 110 mvn -q test -DfailIfNoTests=false -Dtest={test}",
    failed=re.compile(
        r"^\[ERROR\] +(?:[\w.$]+\.)?(\w+)\S*  Time elapsed.*<<< (?:FAILURE|ERROR)", re.MULTILINE
    ),
    raised=re.compile(rf"^(?:[\w$]+\.)*{RAISED}", re.MULTILINE),
)
GRADLE = TestRuns(
    every="timeout 110 gradle test",
    one="timeout 110 gradle test --tests {dotted}",
    failed=re.compile(r"^.+ > (\w+)\S* FAILED", re.MULTILINE),
    raised=re.compile(rf"^ +(?:[\w$]+\.)*{RAISED} at \S+\.java:\d+$", re.MULTILINE),
    shown=r"2>&1 | grep -v '^\s*at \|^WARNING' | tail -{lines}",
)
_JAVAC = "mkdir -p /tmp/classes && javac -nowarn -d /tmp/classes $(find . -name '*.java')"
MAIN_CLASS = TestRuns(
    every=_JAVAC,
    one=f"{_JAVAC} && timeout 60 java -ea -cp /tmp/classes {{test}}",
    failed=re.compile(r"(?!)"),
    raised=re.compile(rf"^Exception in thread \S+ (?:[\w$]+\.)*{RAISED}", re.MULTILINE),
)


def test_runs(instance: Instance) -> TestRuns:
    """The commands for the instance's project, by its build file."""
    if instance.language == "python":
        return PYTEST
    if "pom.xml" in instance.files:
        return MAVEN
    gradle = {"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"}
    return GRADLE if gradle & instance.files.keys() else MAIN_CLASS


class OracleMain:
    """One attempt at one bug. It chooses one candidate and keeps it."""

    def __init__(self, instance: Instance, variant: str, count: int, rng: random.Random) -> None:
        self._variant = Variant(variant)
        self._tests = instance.fail_to_pass
        self._runs = test_runs(instance)
        self._candidates = make_candidates(instance, count, rng)
        self._rng = rng

    def turns(self, task: str) -> Turns:
        """Reproduce, ask, choose, edit, check, stop."""
        command = self._runs.run_every()
        (output,) = yield say("I reproduce the problem first.", ("bash", {"command": command}))
        test = self._runs.failing(output, self._tests)
        chosen = yield from self._decide(test, output)
        edits = [
            ("edit_file", {"path": e.path, "old_string": e.old, "new_string": e.new})
            for e in chosen.edits
        ]
        yield say(f"I change {chosen.place}.", *edits)
        again = {"command": self._runs.run_one(test)}
        yield say("I run the failing test again.", ("bash", again))
        yield say(self.last_word())

    def last_word(self) -> str:
        return "I changed the code where the wrong value came from."

    def _decide(self, test: str, output: str) -> Generator[Message, list[str], Candidate]:
        """Ask the subagent, or stop at the suspects with the debug tools and take the first that is
        reached, or choose at random.
        """
        if self._variant.has_subagent:
            raised = self._runs.exception(output)
            question = self._rng.choice(PHRASES["main_exception" if raised else "main_root_cause"])
            suspects = [f"{c.place} ({c.function or 'module level'})" for c in self._candidates]
            told = f"I suspect one of these places: {', '.join(suspects)}."
            question = f"{question.format(exception=raised)} {told}"
            seen = yield say(
                "I ask the debugger where this goes wrong before I change anything.",
                ("debug_subagent", {"question": question, "test": test}),
            )
        elif self._variant is Variant.DEBUG_TOOLS_ONLY:
            places = [candidate.place for candidate in self._candidates]
            arguments = {"test": test, "breakpoints": places, "stop_at_test": False}
            start = ("debug_start_session", arguments)
            seen = yield say("I run the test under the debugger.", start)
            yield say("I look at the values here.", ("debug_inspect", {"what": "locals"}))
            yield say("I have seen enough.", ("debug_control", {"action": "terminate"}))
        else:
            return self._rng.choice(self._candidates)
        return choose(seen[0], self._candidates, self._rng)
