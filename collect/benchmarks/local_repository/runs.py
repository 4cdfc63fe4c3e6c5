"""What one run of all of a repository's tests showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from collect.benchmarks.base import Instance, Language, TestResults, TestStatus
from collect.factory.reasons import Reason
from sandbox import Sandbox

SHOWN_OUTPUT = 1500
"""Characters of a run's output in a message or a problem statement, its end."""


@dataclass(frozen=True)
class SuiteRun:
    """The tests' statuses, and why they failed."""

    statuses: Mapping[str, TestStatus]
    """In the order of the run."""
    output: str
    timed_out: bool = False
    unloaded: tuple[str, ...] = ()
    """Files of tests that can't be imported, or what else kept tests from running."""
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    """Of the failing tests, where the runner tells."""
    cut_short: str | None = None
    """As in TestResults."""

    def of(self, status: TestStatus) -> tuple[str, ...]:
        """The tests that ended so."""
        return tuple(test for test, found in self.statuses.items() if found is status)

    @property
    def end(self) -> str:
        """The last of what the runner printed."""
        return self.output.strip()[-SHOWN_OUTPUT:]


class Suite(Protocol):
    """The tests of a repository, of one language and one runner."""

    @property
    def language(self) -> Language: ...

    @property
    def test_paths(self) -> tuple[str, ...]:
        """Files and folders of the tests, which are not the agent's to change."""

    @property
    def options(self) -> tuple[str, ...]:
        """For every pytest."""

    def run_all(self, sandbox: Sandbox, timeout: float) -> SuiteRun:
        """Run every test in a laid out workspace; `timeout` is in seconds. Raises SandboxError."""

    def run(
        self, instance: Instance, sandbox: Sandbox, tests: Sequence[str], timeout: float
    ) -> TestResults:
        """Run these tests alone. Raises SandboxError."""
