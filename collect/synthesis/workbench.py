"""What the factory needs from a project in any language, and how it works for Python."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from collect.benchmarks.base import TestStatus
from collect.benchmarks.projects.config import FactoryConfig
from collect.benchmarks.projects.issue_text import read_symptom, write_issue
from collect.benchmarks.projects.project import Project, Reason, read_reasons
from collect.benchmarks.pytest_run import PytestJob, run_job, statuses
from collect.benchmarks.workspace import with_environment
from collect.synthesis.mutations import Mutation, apply_all
from collect.synthesis.suite import Suite, run_suite
from sandbox import SandboxConfig, open_sandbox

DISTANCE_FILE = "distance.json"


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

    def edited(self, edits: Sequence[Mutation]) -> Mapping[str, bytes] | None:
        """The whole edited tree; None if it is no longer a valid program."""

    def run(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        timeout: float,
        measured: tuple[Sequence[Mutation], str] | None = None,
    ) -> TrialRun:
        """Run tests on a state of the project in a fresh sandbox; `timeout` is in seconds.

        `measured` are edits and a test: also measures the distance from the test's failure to the
        edits. Raises SandboxError.
        """

    def group_of(self, test: str) -> str:
        """The file or class of a test."""

    def write_issue(self, failing: Sequence[str], run: TrialRun, seed: str) -> str:
        """A user's bug report, from the symptom of the first of these tests alone."""


@dataclass(frozen=True)
class PythonWorkbench:
    project: Project
    sandbox: SandboxConfig
    config: FactoryConfig

    def run_suite(self) -> Suite:
        return run_suite(self.project, self.sandbox, self.config)

    def edited(self, edits: Sequence[Mutation]) -> Mapping[str, bytes] | None:
        code = apply_all(edits)
        try:
            ast.parse(code)
        except (SyntaxError, ValueError):
            return None
        return {**self.project.source.files, edits[0].path: code.encode()}

    def run(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        timeout: float,
        measured: tuple[Sequence[Mutation], str] | None = None,
    ) -> TrialRun:
        job = PytestJob(list(dict.fromkeys(map(self.group_of, tests))), tests)
        if measured is not None:
            edits, test = measured
            scopes = [
                {
                    "path": edit.path,
                    "name": edit.scope.rpartition(".")[2],
                    "first": edit.scope_lines[0],
                    "last": edit.scope_lines[1],
                }
                for edit in edits
            ]
            plugin = Path(__file__).with_name("distance_plugin.py").read_bytes()
            job = replace(
                job,
                plugins={"stepinto_distance": plugin},
                inputs={"fault.json": json.dumps({"test": test, "scopes": scopes}).encode()},
                outputs=(DISTANCE_FILE,),
            )
        with open_sandbox(with_environment(self.sandbox, self.project.environment)) as opened:
            opened.write_files(files)
            run = run_job(opened, job, timeout)
        return TrialRun(
            statuses(run.reports),
            read_reasons(run.reports),
            run.output,
            run.result.timed_out,
            json.loads(run.outputs.get(DISTANCE_FILE, b"{}")),
        )

    def group_of(self, test: str) -> str:
        return test.partition("::")[0]

    def write_issue(self, failing: Sequence[str], run: TrialRun, seed: str) -> str:
        reason = run.reasons[failing[0]]
        symptom = read_symptom(
            self.project.source.name,
            failing,
            files=self.project.source.files,
            exception=reason.type,
            message=reason.message,
            output=run.output,
        )
        return write_issue(symptom, seed)
