"""The verdict on a patch: the instance's tests, run in a fresh sandbox."""

from __future__ import annotations

from dataclasses import dataclass, replace

from collect.benchmarks.base import Benchmark, Instance, TestResults, TestStatus
from collect.benchmarks.workspace import open_instance_sandbox, prepare_patched
from collect.code.patches import PatchError
from collect.store.records import TestRow
from sandbox import SandboxConfig
from sandbox.errors import BuildFailure

FAIL_TO_PASS = "fail_to_pass"
PASS_TO_PASS = "pass_to_pass"


@dataclass(frozen=True)
class Verdict:
    """The outcome of the tests for a patch."""

    tests: tuple[TestRow, ...]
    skips_count: bool = False
    """Whether a test that passed before may be skipped now."""
    tampered: str | None = None
    """Evidence that the patched code interfered with its own tests; None if there is none."""
    unchecked: tuple[str, ...] = ()
    """Tests that pass, but whose twins can't confirm it."""

    @property
    def resolved(self) -> bool:
        """Every test passes and none was tampered with. A test that never ran does not pass, and an
        empty set of tests proves nothing."""
        return bool(self.tests) and self.tampered is None and all(map(self._passes, self.tests))

    def _passes(self, test: TestRow) -> bool:
        may_skip = self.skips_count and test.group == PASS_TO_PASS
        return test.after == TestStatus.PASSED or (may_skip and test.after == TestStatus.SKIPPED)


def score(
    benchmark: Benchmark, instance: Instance, patch: str, sandbox_config: SandboxConfig
) -> Verdict:
    """Apply a patch to the buggy tree and run the instance's tests.

    Raises SandboxError, BuildFailure if the machine may be at fault, and PatchError if the patch
    does not apply.
    """
    scoring = _Scoring(benchmark, instance, sandbox_config)
    results, unchecked = scoring.checked(patch)
    unreported = TestStatus.TIMED_OUT if results.timed_out else TestStatus.MISSING
    reported = {t: s for t, s in results.statuses.items() if s is not TestStatus.MISSING}
    groups = (
        (FAIL_TO_PASS, TestStatus.FAILED, instance.fail_to_pass),
        (PASS_TO_PASS, TestStatus.PASSED, instance.pass_to_pass),
    )
    rows = [
        TestRow(test, group, before, reported.get(test, unreported))
        for group, before, tests in groups
        for test in tests
    ]
    return Verdict(tuple(rows), instance.skips_count, results.tampered, unchecked)


@dataclass(frozen=True)
class _Scoring:
    """Runs of one bug's tests, each in a fresh sandbox."""

    benchmark: Benchmark
    instance: Instance
    sandbox_config: SandboxConfig

    def checked(self, patch: str) -> tuple[TestResults, tuple[str, ...]]:
        """The outcome for a patch, and the tests that their twins can't confirm.

        A twin that disagrees with its test proves nothing if it also disagrees for the gold patch,
        or if no gold patch is known. Otherwise, if it disagrees again for this patch, the patch is
        at fault. The patch is also at fault for a function that it replaces, if nothing else
        explains it.
        """
        results = self.results(patch)
        if not results.doubts:
            return results, ()
        honest = self._honest_doubts(results)
        if results.doubts.keys() <= honest:
            return results, tuple(results.doubts)
        again = self.results(patch)
        doubts = {test: why for test, why in again.doubts.items() if test not in honest}
        if doubts and again.tampered is None:
            test, why = next(iter(doubts.items()))
            again = replace(again, tampered=f"{test}: {why}")
        return again, tuple(again.doubts.keys() & honest)

    def _honest_doubts(self, results: TestResults) -> frozenset[str]:
        """The doubts that don't speak against a patch."""
        of_tests = frozenset(results.doubts.keys() - set(results.replaced))
        gold = self.instance.gold_patch
        try:
            control = self._run(gold)
        except PatchError:
            return of_tests
        passes = all(control.statuses[t] is TestStatus.PASSED for t in self.instance.fail_to_pass)
        if gold and passes:
            return frozenset(control.doubts)
        # Twins run only if the bug is fixed.
        return of_tests | frozenset(control.replaced)

    def results(self, patch: str) -> TestResults:
        """The outcome of the tests for a patch.

        If the build fails outside the sources, the patch is at fault only if that happens again and
        does not happen without the patch. Raises BuildFailure if it also happens without the patch.
        """
        results = self._run(patch)
        if results.build_failure is not None:
            results = self._run(patch)
        if results.build_failure is not None:
            without = self._run("").build_failure
            if without is not None:
                raise BuildFailure(f"the bug's build fails without the patch, too: {without}")
        return results

    def _run(self, patch: str) -> TestResults:
        with open_instance_sandbox(self.sandbox_config, self.instance) as sandbox:
            patched = prepare_patched(self.benchmark, self.instance, sandbox, patch)
            scored = replace(patched, is_scored=True)
            tests = [*self.instance.fail_to_pass, *self.instance.pass_to_pass]
            return self.benchmark.run_tests(scored, sandbox, tests)
