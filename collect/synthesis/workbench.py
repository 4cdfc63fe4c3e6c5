"""The language interface: what the factory needs from a project in any language."""

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
    """The results of one run of some tests on one state of a project."""

    statuses: Mapping[str, TestStatus]
    """Statuses of the reported tests."""
    reasons: Mapping[str, Reason]
    """Reasons of the failed tests."""
    output: str = ""
    timed_out: bool = False
    distance: Mapping[str, int | bool | None] = field(default_factory=dict)
    """Measurements on one failing test, by field name of `Difficulty`; empty if there are none."""
    traces: Mapping[str, str] = field(default_factory=dict)
    """Stack traces of failed tests, if the runner reports them separately."""

    def of_status(self, tests: Sequence[str], status: TestStatus) -> tuple[str, ...]:
        """The tests with this status."""
        return tuple(test for test in tests if self.statuses.get(test) is status)


class Workbench(Protocol):
    """One project that can be run, edited and run again. Thread-safe."""

    def run_suite(self) -> Suite:
        """Run the unedited project's suite twice. Raises ProjectRefused, SandboxError."""

    def edited(self, mutation: Mutation | CombinedMutation) -> Mapping[str, bytes] | None:
        """The whole edited tree; None if it is no longer a valid program."""

    def run(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        timeout: float,
        measured: tuple[Candidate, str] | None = None,
    ) -> TrialRun:
        """Run tests on a state of the project in a fresh sandbox; `timeout` is in seconds.

        `measured` names a candidate and a test: also measures the distance from the test's failure
        to the edits. Raises SandboxError.
        """

    def group_of(self, test: str) -> str:
        """The file or class of a test."""

    def write_issue(self, caught: Caught, seed: str) -> str:
        """A user's bug report, from the symptom alone."""
