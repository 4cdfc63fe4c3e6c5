"""The language seam: what the factory asks of a project, whatever it is written in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from collect.benchmarks.base import TestStatus
from collect.benchmarks.projects.project import Reason
from collect.synthesis.bug import Caught
from collect.synthesis.candidates import Candidate
from collect.synthesis.mutations import CombinedMutation, Mutation
from collect.synthesis.suite import Suite


@dataclass(frozen=True)
class TrialRun:
    """What one run of some tests on one state of a project showed."""

    statuses: Mapping[str, TestStatus]
    """Of the tests that were reported."""
    reasons: Mapping[str, Reason]
    """Of those that failed."""
    output: str = ""
    timed_out: bool = False
    distance: Mapping[str, int | bool | None] = field(default_factory=dict)
    """What was measured on one failing test, by the names of `Difficulty`; empty where nothing
    was."""
    traces: Mapping[str, str] = field(default_factory=dict)
    """Stack traces of those that failed, where the runner reports them by themselves."""

    def of_status(self, tests: Sequence[str], status: TestStatus) -> tuple[str, ...]:
        """Those of the tests that ended so."""
        return tuple(test for test in tests if self.statuses.get(test) is status)


class Workbench(Protocol):
    """One project that can be run, edited and run again. Thread-safe."""

    def run_suite(self) -> Suite:
        """Run the unedited project's suite twice. Raises ProjectRefused, SandboxError."""

    def edited(self, mutation: Mutation | CombinedMutation) -> Mapping[str, bytes] | None:
        """The whole edited tree; None where it is no program any more."""

    def run(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        timeout: float,
        measured: tuple[Candidate, str] | None = None,
    ) -> TrialRun:
        """Run tests on a state of the project in a fresh sandbox; `timeout` is in seconds.

        `measured`: how far one test's failure lies from a candidate's edits is measured as well.
        Raises SandboxError.
        """

    def group_of(self, test: str) -> str:
        """The file or class that a test is in."""

    def write_issue(self, caught: Caught, seed: str) -> str:
        """What a user would report, from the symptom alone."""
