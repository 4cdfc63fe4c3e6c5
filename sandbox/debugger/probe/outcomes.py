"""How tests ended, beyond the exit code: skipped, failed as expected. There may be hundreds, so the
same outcome is told once."""

from __future__ import annotations

from typing import Any

MOST_OUTCOMES = 5
"""Different ones in one answer."""


class Outcomes:
    """What was not told yet."""

    def __init__(self) -> None:
        self.tests: dict[str, list[str]] = {}
        """By what is to be said of them."""

    def add(self, test: str, said: str) -> None:
        """Keep `tests/test_a.py::test_b` and `was skipped: too slow`; nothing if that is empty."""
        if said:
            self.tests.setdefault(said, []).append(test)

    def take(self) -> list[str]:
        """Notes on what was added since the last call."""
        every, self.tests = list(self.tests.items()), {}
        notes = [note(said, tests) for said, tests in every[:MOST_OUTCOMES]]
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
