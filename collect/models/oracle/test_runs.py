"""How the oracle as main agent runs tests in the shell, and reads what they print."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from collect.benchmarks.base import Instance

ASSERTIONS = {"AssertionError", "AssertionFailedError", "ComparisonFailure"}
RAISED = r"([A-Z]\w*(?:Error|Exception))\b"


@dataclass(frozen=True)
class TestRuns:
    """The commands for one kind of project, and the shape of their output."""

    __test__ = False

    every: str
    """Runs every test."""
    one: str
    """Runs one: `{test}` is its name, `{dotted}` the same with a dot before the method."""
    failed: re.Pattern[str]
    """Finds the name of a failed test, as a whole or only its method."""
    raised: re.Pattern[str]
    """Finds the class of the exception that a test ended with."""
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
        """The first test that failed, where that can be told, else the first of `tests`."""
        known = {test.rpartition("#")[2]: test for test in tests}
        names: list[str] = self.failed.findall(output)
        for name in names:
            if name in known or "::" in name:
                return known.get(name, name)
        return tests[0]

    def exception(self, output: str) -> str | None:
        """What the first failed test raised; None where it was an assertion's."""
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
    """What fits the instance's project, by its build file."""
    if instance.language == "python":
        return PYTEST
    if "pom.xml" in instance.files:
        return MAVEN
    gradle = {"build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"}
    return GRADLE if gradle & instance.files.keys() else MAIN_CLASS
