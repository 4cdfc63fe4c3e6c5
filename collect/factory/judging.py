"""Try an edit: keep it where some tests catch it, and catch it twice for the same reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collect.benchmarks.base import TestStatus
from collect.benchmarks.local_records import LocalBug
from collect.factory.bug import Caught, make_bug
from collect.factory.candidates import Candidate
from collect.factory.config import FactoryConfig
from collect.factory.project import Project
from collect.factory.records import Outcome, Step
from collect.factory.suite import Suite
from collect.factory.workbench import TrialRun, Workbench
from collect.mutations import Mutation
from sandbox.errors import ImageMissing, SandboxUnavailable

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
    workbench: Workbench
    config: FactoryConfig

    def judge(self, candidate: Candidate) -> Outcome:
        """All steps that a candidate takes alone.

        Raises OSError, SandboxUnavailable, ImageMissing: what would hit every candidate.
        """
        kind = candidate.mutation.kind
        try:
            found = self._found(candidate)
        except (OSError, SandboxUnavailable, ImageMissing):
            raise
        except Exception as error:  # One edit of thousands must not end the run.
            problem = f"{candidate.id} ({kind}): {type(error).__name__}: {error}"
            return Outcome(
                candidate_id=candidate.id, kind=kind, dropped_at=Step.JUDGED, problem=problem
            )
        if isinstance(found, Step):
            return Outcome(candidate_id=candidate.id, kind=kind, dropped_at=found)
        return Outcome(candidate_id=candidate.id, kind=kind, bug=found)

    def _found(self, candidate: Candidate) -> LocalBug | Step:
        buggy = self.workbench.edited(candidate.mutation)
        if buggy is None:
            return Step.PARSES
        first = self._run(buggy, candidate.tests)
        step = self._stopped_at(first, candidate)
        if step is not None:
            return step
        caught = self._caught_again(candidate, buggy, first)
        if isinstance(caught, Step):
            return caught
        kept = (*caught.failing, *caught.passing)
        correct = self._run(self.project.source.files, kept)
        if correct.of_status(kept, TestStatus.PASSED) != kept:
            return Step.FIXED
        several = len(candidate.parts) > 1
        if several and any(self._is_idle(part, caught.failing) for part in candidate.parts):
            return Step.EACH
        seed = f"{self.config.seed}:{candidate.id}"
        return make_bug(self.project, candidate, caught, self.workbench.write_issue(caught, seed))

    def _stopped_at(self, run: TrialRun, candidate: Candidate) -> Step | None:
        if run.timed_out:
            return Step.ENDS
        found = run.statuses
        if any(found.get(test) in (None, TestStatus.MISSING) for test in candidate.tests):
            return Step.LOADS
        failing = len(run.of_status(candidate.tests, TestStatus.FAILED))
        if failing == 0:
            return Step.FAILS
        return Step.FEW_FAIL if failing > self.config.max_failing else None

    def _caught_again(
        self, candidate: Candidate, buggy: Mapping[str, bytes], first: TrialRun
    ) -> Caught | Step:
        """A second run, which also measures the distance to the first failure."""
        failing = first.of_status(candidate.tests, TestStatus.FAILED)
        tests = (*candidate.tests, *self._neighbours(candidate, failing))
        second = self._run(buggy, tests, (candidate, failing[0]))
        if second.reasons != first.reasons:
            return Step.REPEATS
        passing = second.of_status(tests, TestStatus.PASSED)[: self.config.max_pass_to_pass]
        if not passing:
            return Step.OTHERS_PASS
        return Caught(
            files=buggy,
            failing=failing,
            passing=passing,
            reason=second.reasons[failing[0]],
            output=second.output,
            distance=second.distance,
            trace=second.traces.get(failing[0], ""),
        )

    def _neighbours(self, candidate: Candidate, failing: Sequence[str]) -> list[str]:
        """Tests that don't reach the fault, those of the failing tests' files first."""
        group_of = self.workbench.group_of
        files = set(map(group_of, failing))
        near = [test for test in self.suite.tests if group_of(test) in files]
        others = [
            test
            for test in dict.fromkeys([*near, *self.suite.tests])
            if test not in candidate.tests and self.suite.seconds[test] < MAX_TEST_SECONDS
        ]
        wanted = self.config.max_pass_to_pass - len(candidate.tests) + len(failing)
        return others[: max(wanted, 0)]

    def _is_idle(self, part: Mutation, failing: Sequence[str]) -> bool:
        """Whether one edit of several makes no test fail by itself: mending the rest is enough."""
        buggy = self.workbench.edited(part)
        return buggy is None or not self._run(buggy, failing).of_status(failing, TestStatus.FAILED)

    def _run(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        measured: tuple[Candidate, str] | None = None,
    ) -> TrialRun:
        usual = sum(self.suite.seconds[test] for test in tests)
        timeout = min(self.config.test_timeout, START_SECONDS + PATIENCE * usual)
        return self.workbench.run(files, tests, timeout, measured)
