"""The verdict on a patch: the instance's tests, run in a fresh sandbox."""

from __future__ import annotations

from dataclasses import dataclass

from collect.benchmarks.base import Benchmark, Instance, TestStatus
from collect.benchmarks.workspace import open_instance_sandbox, prepare_patched
from collect.records import TestRow
from sandbox import SandboxConfig

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

    Raises SandboxError, and PatchError where the patch does not fit.
    """
    tests = [*instance.fail_to_pass, *instance.pass_to_pass]
    with open_instance_sandbox(sandbox_config, instance) as sandbox:
        patched = prepare_patched(benchmark, instance, sandbox, patch)
        results = benchmark.run_tests(patched, sandbox, tests)
    unreported = TestStatus.TIMED_OUT if results.timed_out else TestStatus.MISSING
    reported = {t: s for t, s in results.statuses.items() if s is not TestStatus.MISSING}
    after = {test: reported.get(test, unreported) for test in tests}
    failing = [
        TestRow(test, FAIL_TO_PASS, TestStatus.FAILED, after[test])
        for test in instance.fail_to_pass
    ]
    passing = [
        TestRow(test, PASS_TO_PASS, TestStatus.PASSED, after[test])
        for test in instance.pass_to_pass
    ]
    return Verdict((*failing, *passing), instance.skips_count)
