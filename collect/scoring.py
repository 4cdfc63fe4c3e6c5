"""The verdict on a patch: the instance's tests, run in a fresh sandbox."""

from __future__ import annotations

from dataclasses import dataclass

from collect.benchmarks.base import Benchmark, Instance, TestResults, TestStatus
from collect.benchmarks.workspace import open_instance_sandbox, prepare_patched
from collect.records import TestRow
from sandbox import SandboxConfig
from sandbox.errors import BuildFailure

FAIL_TO_PASS = "fail_to_pass"
PASS_TO_PASS = "pass_to_pass"


@dataclass(frozen=True)
class Verdict:
    """What the tests say of a patch."""

    tests: tuple[TestRow, ...]
    skips_count: bool = False
    """Whether a test that passed before may be skipped now."""

    @property
    def resolved(self) -> bool:
        """Every test passes; one that never ran does not, and no tests prove nothing."""
        return bool(self.tests) and all(map(self._passes, self.tests))

    def _passes(self, test: TestRow) -> bool:
        may_skip = self.skips_count and test.group == PASS_TO_PASS
        return test.after == TestStatus.PASSED or (may_skip and test.after == TestStatus.SKIPPED)


def score(
    benchmark: Benchmark, instance: Instance, patch: str, sandbox_config: SandboxConfig
) -> Verdict:
    """Apply a patch to the buggy tree and run the instance's tests.

    Raises SandboxError, a BuildFailure where the machine may be to blame for the build's, and
    PatchError where the patch does not fit.
    """
    scoring = _Scoring(benchmark, instance, sandbox_config)
    results = scoring.results(patch)
    unreported = TestStatus.TIMED_OUT if results.timed_out else TestStatus.MISSING
    reported = {t: s for t, s in results.statuses.items() if s is not TestStatus.MISSING}
    after = {test: reported.get(test, unreported) for test in scoring.tests}
    failing = [
        TestRow(test, FAIL_TO_PASS, TestStatus.FAILED, after[test])
        for test in instance.fail_to_pass
    ]
    passing = [
        TestRow(test, PASS_TO_PASS, TestStatus.PASSED, after[test])
        for test in instance.pass_to_pass
    ]
    return Verdict((*failing, *passing), instance.skips_count)


@dataclass(frozen=True)
class _Scoring:
    """Runs of one bug's tests, each in a fresh sandbox."""

    benchmark: Benchmark
    instance: Instance
    sandbox_config: SandboxConfig

    @property
    def tests(self) -> list[str]:
        return [*self.instance.fail_to_pass, *self.instance.pass_to_pass]

    def results(self, patch: str) -> TestResults:
        """What the tests say of a patch.

        Where the build fails outside the sources, the patch is to blame only if that happens again,
        and does not happen without the patch. Raises BuildFailure where it does.
        """
        results = self._run(patch)
        if results.build_failure is not None:
            results = self._run(patch)
        if results.build_failure is None:
            return results
        without = self._run("").build_failure
        if without is not None:
            raise BuildFailure(f"the bug's build fails without the patch, too: {without}")
        return results

    def _run(self, patch: str) -> TestResults:
        with open_instance_sandbox(self.sandbox_config, self.instance) as sandbox:
            patched = prepare_patched(self.benchmark, self.instance, sandbox, patch)
            return self.benchmark.run_tests(patched, sandbox, self.tests)
