"""Try an edit: keep it where some tests catch it, and catch it twice for the same reason."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from collect.benchmarks.base import TestStatus
from collect.benchmarks.local_records import Difficulty, EditRecord, FailureRecord, LocalBug
from collect.benchmarks.pytest_run import PytestJob, PytestRun, run_job
from collect.benchmarks.testing import statuses
from collect.benchmarks.workspace import with_environment
from collect.factory.candidates import Candidate
from collect.factory.config import FactoryConfig
from collect.factory.issue_text import Symptom, write_issue
from collect.factory.project import Project
from collect.factory.records import Outcome, Step
from collect.factory.suite import Suite
from collect.mutations import CombinedMutation, Mutation
from collect.patches import diff_trees
from sandbox import SandboxConfig, open_sandbox

PLUGIN = "stepinto_distance"
FAULT_FILE = "fault.json"
DISTANCE_FILE = "distance.json"
PATIENCE = 5.0
"""How many times as long as without the edit, and a few seconds, its tests may take."""
START_SECONDS = 10.0
MAX_MESSAGE = 500
"""Characters of a failure's message that are kept."""
# Also what pytest leaves of one where it shortens a line.
_ADDRESS = re.compile(r"(?:0x|\.\.\.x?)[0-9a-f]{5,}")
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)")


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
        first = self._run(buggy, PytestJob(_files(candidate.tests), candidate.tests))
        step = self._stopped_at(first, candidate)
        if step is not None:
            return step
        failing = _failing(first, candidate.tests)
        second = self._run(buggy, _measured(candidate, failing[0]))
        if _failures(first) != _failures(second):
            return Step.REPEATS
        passing = self._passing(candidate, failing)
        kept = (*failing, *passing)
        fixed = statuses(
            self._run(self.project.source.files, PytestJob(_files(kept), kept)).reports
        )
        if any(fixed.get(test) is not TestStatus.PASSED for test in kept):
            return Step.FIXED
        several = len(candidate.parts) > 1
        if several and any(self._is_idle(part, failing) for part in candidate.parts):
            return Step.EACH
        return self._bug(candidate, buggy, second, failing, passing)

    def _is_idle(self, part: Mutation, failing: Sequence[str]) -> bool:
        """Whether one edit of several makes no test fail by itself: mending the rest is enough."""
        buggy = self._buggy(part)
        if buggy is None:
            return True
        found = statuses(self._run(buggy, PytestJob(_files(failing), failing)).reports)
        return all(found.get(test) is TestStatus.PASSED for test in failing)

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

    def _stopped_at(self, run: PytestRun, candidate: Candidate) -> Step | None:
        if run.result.timed_out:
            return Step.ENDS
        found = statuses(run.reports)
        ended = [found.get(test, TestStatus.MISSING) for test in candidate.tests]
        if TestStatus.MISSING in ended:
            return Step.LOADS
        failing = ended.count(TestStatus.FAILED)
        if failing == 0:
            return Step.FAILS
        if failing > self.config.max_failing:
            return Step.FEW_FAIL
        if TestStatus.PASSED not in ended and len(self.suite.tests) == len(candidate.tests):
            return Step.OTHERS_PASS
        return None

    def _passing(self, candidate: Candidate, failing: Sequence[str]) -> tuple[str, ...]:
        """Tests that pass on both sides: first those that reach the fault, or share a file with a
        failing test, then others."""
        files = set(_files(failing))
        reaching = [test for test in candidate.tests if test not in failing]
        neighbours = [test for test in self.suite.tests if test.partition("::")[0] in files]
        chosen = dict.fromkeys([*reaching, *neighbours, *self.suite.tests])
        others = [test for test in chosen if test not in failing and self.suite.seconds[test] < 1]
        return tuple(others[: self.config.max_pass_to_pass])

    def _bug(
        self,
        candidate: Candidate,
        buggy: Mapping[str, bytes],
        run: PytestRun,
        failing: Sequence[str],
        passing: Sequence[str],
    ) -> LocalBug:
        project = self.project
        failure = _failures(run)[failing[0]]
        distance = json.loads(run.outputs.get(DISTANCE_FILE, b"{}"))
        symptom = Symptom.of(project, failing, failure, run.output)
        return LocalBug(
            id=f"{project.source.slug}__{candidate.id}",
            repository=f"repositories/{project.source.slug}",
            project=project.source.name,
            problem_statement=write_issue(symptom, f"{self.config.seed}:{candidate.id}"),
            fail_to_pass=tuple(failing),
            pass_to_pass=tuple(passing),
            gold_patch=diff_trees(buggy, project.source.files),
            holds="correct",
            test_paths=project.test_paths,
            packages=project.environment.packages,
            import_paths=project.environment.import_paths,
            variables=project.environment.variables,
            category=candidate.mutation.category,
            edits=tuple(
                EditRecord(
                    kind=part.kind,
                    category=part.category,
                    path=part.path,
                    line=part.line,
                    scope=part.scope,
                )
                for part in candidate.parts
            ),
            failure=FailureRecord(type=failure.type, message=failure.message[:MAX_MESSAGE]),
            difficulty=Difficulty(
                failing_tests=len(failing), covering_tests=candidate.covering, **distance
            ),
        )


@dataclass(frozen=True)
class Reason:
    """Why a test failed: equal for the same failure of the same program."""

    type: str
    message: str
    place: str


def _measured(candidate: Candidate, test: str) -> PytestJob:
    scopes = [
        {
            "path": part.path,
            "name": part.scope.rpartition(".")[2],
            "first": part.scope_lines[0],
            "last": part.scope_lines[1],
        }
        for part in candidate.parts
    ]
    fault = json.dumps({"test": test, "scopes": scopes}).encode()
    plugin = Path(__file__).with_name("distance_plugin.py").read_bytes()
    files = _files(candidate.tests)
    return PytestJob(
        files, candidate.tests, {PLUGIN: plugin}, {FAULT_FILE: fault}, (DISTANCE_FILE,)
    )


def _files(tests: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(test.partition("::")[0] for test in tests))


def _failing(run: PytestRun, tests: Sequence[str]) -> tuple[str, ...]:
    found = statuses(run.reports)
    return tuple(test for test in tests if found.get(test) is TestStatus.FAILED)


def _failures(run: PytestRun) -> dict[str, Reason]:
    """The first failure of each failing test."""
    reasons: dict[str, Reason] = {}
    for report in run.reports:
        test = str(report["nodeid"])
        if report["outcome"] == "failed" and test not in reasons:
            reasons[test] = _reason(report.get("crash"))
    return reasons


def _reason(crash: object) -> Reason:
    if not isinstance(crash, dict):
        return Reason("Exception", "", "")
    message = _ADDRESS.sub("0x...", str(crash["message"]))
    if message.startswith("RecursionError"):
        # Where the stack ends depends on what else is on it.
        return Reason("RecursionError", "maximum recursion depth exceeded", "")
    named = _EXCEPTION.match(message)
    # pytest leaves the name out of a failed assertion.
    kind = named[1] if named and not message.startswith("assert ") else "AssertionError"
    return Reason(kind.rpartition(".")[2], message, f"{crash['path']}:{crash['line']}")
