"""The verdict on a patch: the instance's tests, run in a fresh sandbox."""

from __future__ import annotations

from dataclasses import dataclass, replace

from collect.benchmarks.base import Benchmark, Instance, TestStatus
from collect.benchmarks.workspace import open_instance_sandbox
from collect.patches import apply_patch
from collect.records import TestRow
from sandbox import SandboxConfig

FAIL_TO_PASS = "fail_to_pass"
PASS_TO_PASS = "pass_to_pass"


@dataclass(frozen=True)
class Verdict:
    """What the tests say of a patch."""

    tests: tuple[TestRow, ...]

    @property
    def resolved(self) -> bool:
        """Every test passes; one that never ran does not, and no tests prove nothing."""
        return bool(self.tests) and all(test.after == TestStatus.PASSED for test in self.tests)


def score(
    benchmark: Benchmark, instance: Instance, patch: str, sandbox_config: SandboxConfig
) -> Verdict:
    """Apply a patch to the buggy tree and run the instance's tests. Raises SandboxError."""
    files = {**apply_patch(instance.files, patch), **instance.hidden_files}
    patched = replace(instance, files=files)
    tests = [*instance.fail_to_pass, *instance.pass_to_pass]
    with open_instance_sandbox(sandbox_config, instance) as sandbox:
        benchmark.prepare(patched, sandbox)
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
    return Verdict((*failing, *passing))
