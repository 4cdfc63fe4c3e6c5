"""How tests ended, beyond the exit code: passed or failed, skipped, failed as expected. There may
be hundreds, so the same outcome is told once."""

from __future__ import annotations

import sys
from typing import Any

MOST_OUTCOMES = 5
"""Different ones in one answer."""


class Outcomes:
    """What was not told yet."""

    def __init__(self) -> None:
        self.tests: dict[str, list[str]] = {}
        """By what is to be said of them."""
        self.running = ""
        """The test that runs, if there are several; empty once told."""

    def add(self, test: str, said: str) -> None:
        """Keep `tests/test_a.py::test_b` and `was skipped: too slow`; nothing if that is empty."""
        if said:
            self.tests.setdefault(said, []).append(test)

    def take(self) -> list[str]:
        """Notes on what was added since the last call."""
        every, self.tests = list(self.tests.items()), {}
        running, self.running = self.running, ""
        notes = [f"the test that runs is {running}"] if running else []
        notes += [note(said, tests) for said, tests in every[:MOST_OUTCOMES]]
        others = sum(len(tests) for _, tests in every[MOST_OUTCOMES:])
        if others:
            notes.append(f"{others} more tests were skipped, or ended otherwise than by passing")
        return notes


def note(said: str, tests: list[str]) -> str:
    return f"{tests[0]} {said}" if len(tests) == 1 else f"each of {len(tests)} tests {said}"


def outcome(report: Any) -> str:
    """How a test or the collection of a file ended for pytest; empty if its exit code says it."""
    if report.failed and isinstance(report.longrepr, str):  # without an exception
        return f"failed: {report.longrepr}"
    if not hasattr(report, "wasxfail"):
        return skipped(report.longrepr) if report.skipped else ""
    reason = report.wasxfail.replace("reason: ", "", 1)
    if reason.startswith("[NOTRUN]"):
        return "was not run, as its xfail wants"
    because = f" ({reason})" if reason else ""
    if report.skipped:
        return f"failed as expected (xfail){because}"
    return f"passed, though it was expected to fail (xfail){because}" if report.passed else ""


def skipped(longrepr: Any) -> str:
    """Of a report's place and reason."""
    reason = longrepr[2] if isinstance(longrepr, tuple) else ""
    reason = reason[9:] if reason.startswith("Skipped: ") else reason
    return f"was skipped: {reason}" if reason else "was skipped"


class Verdict:
    """Which tests passed and which failed, each once: a test has several reports if it has
    subtests or runs again."""

    def __init__(self) -> None:
        self.outcomes: dict[str, bool] = {}
        """Whether a test passed, by its name."""

    def add_passed(self, test: str) -> None:
        self.outcomes.setdefault(test, True)

    def add_failed(self, test: str) -> None:
        self.outcomes[test] = False

    def notes(self, code: int) -> list[str]:
        passed = [test for test, has_passed in self.outcomes.items() if has_passed]
        failed = [test for test, has_passed in self.outcomes.items() if not has_passed]
        notes = []
        if passed:
            notes.append(f"{one_or_count(passed)} passed in this run")
        if failed:
            notes.append(f"{one_or_count(failed)} failed in this run")
        if passed and not failed and code:
            notes.append(f"the test runner still ended with exit code {code}: no test failed")
        return notes


def one_or_count(tests: list[str]) -> str:
    return tests[0] if len(tests) == 1 else f"{len(tests)} tests"


def runs_again(item: Any) -> list[str]:
    """A note if pytest-rerunfailures would give a test that failed another try."""
    plugin, tries = sys.modules.get("pytest_rerunfailures"), getattr(item, "execution_count", 0)
    if plugin is None or not tries:
        return []
    most = 1 + (plugin.get_reruns_count(item) or 0)
    said = f"this was try {tries} of {most}: without a debugger pytest runs the test again"
    return [said] if tries < most else []
