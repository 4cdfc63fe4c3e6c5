"""Try an edit: keep it where some tests catch it, and catch it twice for the same reason."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collect.benchmarks.base import TestStatus
from collect.benchmarks.local_records import LocalBug
from collect.benchmarks.pytest_run import PytestJob, PytestRun, run_job
from collect.benchmarks.testing import statuses
from collect.benchmarks.workspace import with_environment
from collect.factory.bug import Caught, make_bug
from collect.factory.candidates import Candidate
from collect.factory.config import FactoryConfig
from collect.factory.project import Project
from collect.factory.reasons import read_reasons
from collect.factory.records import Outcome, Step
from collect.factory.suite import Suite
from collect.mutations import CombinedMutation, Mutation
from sandbox import SandboxConfig, open_sandbox

PLUGIN = "stepinto_distance"
FAULT_FILE = "fault.json"
DISTANCE_FILE = "distance.json"
PATIENCE = 5.0
"""How many times as long as without the edit, and START_SECONDS, its tests may take."""
START_SECONDS = 10.0
MAX_TEST_SECONDS = 1.0
"""A slower test is not run only to have one more that passes."""


@dataclass(frozen=True)
class Judge:
    """Judges the candidates of one project. Thread-safe."""

    project: Project
    suite: Suite
    sandbox: SandboxConfig
    config: FactoryConfig

    def judge(self, candidate: Candidate) -> Outcome:
        """All steps that a candidate takes alone. Raises SandboxError."""
        found = self._found(candidate)
        kind = candidate.mutation.kind
        if isinstance(found, Step):
            return Outcome(candidate_id=candidate.id, kind=kind, dropped_at=found)
        return Outcome(candidate_id=candidate.id, kind=kind, bug=found)

    def _found(self, candidate: Candidate) -> LocalBug | Step:
        buggy = self._buggy(candidate.mutation)
        if buggy is None:
            return Step.PARSES
        first = self._run(buggy, _job(candidate.tests))
        step = self._stopped_at(first, candidate)
        if step is not None:
            return step
        caught = self._caught_again(candidate, buggy, first)
        if isinstance(caught, Step):
            return caught
        kept = (*caught.failing, *caught.passing)
        correct = self._run(self.project.source.files, _job(kept))
        if _of_status(correct, kept, TestStatus.PASSED) != kept:
            return Step.FIXED
        several = len(candidate.parts) > 1
        if several and any(self._is_idle(part, caught.failing) for part in candidate.parts):
            return Step.EACH
        return make_bug(self.project, candidate, caught, self.config.seed)

    def _stopped_at(self, run: PytestRun, candidate: Candidate) -> Step | None:
        if run.result.timed_out:
            return Step.ENDS
        found = statuses(run.reports)
        if any(found.get(test) in (None, TestStatus.MISSING) for test in candidate.tests):
            return Step.LOADS
        failing = len(_of_status(run, candidate.tests, TestStatus.FAILED))
        if failing == 0:
            return Step.FAILS
        return Step.FEW_FAIL if failing > self.config.max_failing else None

    def _caught_again(
        self, candidate: Candidate, buggy: Mapping[str, bytes], first: PytestRun
    ) -> Caught | Step:
        """A second run, which also measures the distance to the first failure."""
        failing = _of_status(first, candidate.tests, TestStatus.FAILED)
        tests = (*candidate.tests, *self._neighbours(candidate, failing))
        second = self._run(buggy, _measured(_job(tests), candidate, failing[0]))
        reasons = read_reasons(second.reports)
        if reasons != read_reasons(first.reports):
            return Step.REPEATS
        passing = _of_status(second, tests, TestStatus.PASSED)[: self.config.max_pass_to_pass]
        if not passing:
            return Step.OTHERS_PASS
        distance = json.loads(second.outputs.get(DISTANCE_FILE, b"{}"))
        return Caught(buggy, failing, passing, reasons[failing[0]], second.output, distance)

    def _neighbours(self, candidate: Candidate, failing: Sequence[str]) -> list[str]:
        """Tests that don't reach the fault, those of the failing tests' files first."""
        files = set(_files(failing))
        near = [test for test in self.suite.tests if test.partition("::")[0] in files]
        others = [
            test
            for test in dict.fromkeys([*near, *self.suite.tests])
            if test not in candidate.tests and self.suite.seconds[test] < MAX_TEST_SECONDS
        ]
        wanted = self.config.max_pass_to_pass - len(candidate.tests) + len(failing)
        return others[: max(wanted, 0)]

    def _is_idle(self, part: Mutation, failing: Sequence[str]) -> bool:
        """Whether one edit of several makes no test fail by itself: mending the rest is enough."""
        buggy = self._buggy(part)
        return buggy is None or not _of_status(
            self._run(buggy, _job(failing)), failing, TestStatus.FAILED
        )

    def _buggy(self, mutation: Mutation | CombinedMutation) -> dict[str, bytes] | None:
        code = mutation.apply()
        try:
            ast.parse(code)
        except (SyntaxError, ValueError):
            return None
        return {**self.project.source.files, mutation.path: code.encode()}

    def _run(self, files: Mapping[str, bytes], job: PytestJob) -> PytestRun:
        usual = sum(self.suite.seconds[test] for test in job.tests or ())
        timeout = min(self.config.test_timeout, START_SECONDS + PATIENCE * usual)
        with open_sandbox(with_environment(self.sandbox, self.project.environment)) as opened:
            opened.write_files(files)
            return run_job(opened, job, timeout)


def _job(tests: Sequence[str]) -> PytestJob:
    return PytestJob(_files(tests), tests)


def _measured(job: PytestJob, candidate: Candidate, test: str) -> PytestJob:
    scopes = [
        {
            "path": part.path,
            "name": part.scope.rpartition(".")[2],
            "first": part.scope_lines[0],
            "last": part.scope_lines[1],
        }
        for part in candidate.parts
    ]
    return replace(
        job,
        plugins={PLUGIN: Path(__file__).with_name("distance_plugin.py").read_bytes()},
        inputs={FAULT_FILE: json.dumps({"test": test, "scopes": scopes}).encode()},
        outputs=(DISTANCE_FILE,),
    )


def _files(tests: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(test.partition("::")[0] for test in tests))


def _of_status(run: PytestRun, tests: Sequence[str], status: TestStatus) -> tuple[str, ...]:
    found = statuses(run.reports)
    return tuple(test for test in tests if found.get(test) is status)
