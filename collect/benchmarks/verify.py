"""Check that bugs are what they claim: failing before the gold patch, passing after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from rich.table import Table

from collect.benchmarks.base import Benchmark, Instance, TestResults, TestStatus
from collect.benchmarks.workspace import open_instance_sandbox, patch_workspace
from collect.patches import PatchError
from sandbox import SandboxConfig
from sandbox.errors import SandboxError

NO_GOLD = "no gold patch is known: only that the tests fail was checked"


@dataclass(frozen=True)
class Verification:
    """What running one instance before and after its gold patch showed."""

    instance_id: str
    repository: str
    problems: tuple[str, ...]
    seconds_before: float
    """Of the test run on the buggy code, the first where there were several."""
    seconds_after: float
    note: str = ""
    """What could not be checked."""

    @property
    def ok(self) -> bool:
        return not self.problems


def verify_instance(
    benchmark: Benchmark, instance: Instance, sandbox_config: SandboxConfig, repeats: int = 1
) -> Verification:
    """Run the tests before and after the gold patch, `repeats` times, each in a fresh sandbox.

    Where no gold patch is known, only before.
    """
    try:
        before = [_run(benchmark, instance, sandbox_config, "") for _ in range(repeats)]
        after = [
            _run(benchmark, instance, sandbox_config, instance.gold_patch)
            for _ in range(repeats if instance.gold_patch else 0)
        ]
    except (SandboxError, PatchError) as error:
        problem = f"{type(error).__name__}: {error}"
        return Verification(instance.id, instance.repository, (problem,), 0.0, 0.0)
    problems = _problems(instance, before, after)
    return Verification(
        instance.id,
        instance.repository,
        tuple(problems),
        before[0].seconds,
        after[0].seconds if after else 0.0,
        "" if after else NO_GOLD,
    )


def verify(
    benchmark: Benchmark,
    instances: Sequence[Instance],
    sandbox_config: SandboxConfig,
    *,
    repeats: int = 1,
    workers: int = 2,
    on_done: Callable[[Verification], None] = lambda _: None,
) -> list[Verification]:
    """Verify many at once, in the order given; `on_done` hears of each from the worker threads."""

    def one(instance: Instance) -> Verification:
        verification = verify_instance(benchmark, instance, sandbox_config, repeats)
        on_done(verification)
        return verification

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, instances))


def verification_table(verifications: Sequence[Verification]) -> Table:
    """One line an instance, and the count of those that are well."""
    well = sum(verification.ok for verification in verifications)
    table = Table(title=f"{well} of {len(verifications)} instances are as they claim")
    for column in ("instance", "repository"):
        table.add_column(column, overflow="fold")
    for column in ("before (s)", "after (s)"):
        table.add_column(column, justify="right")
    table.add_column("problems", overflow="fold")
    for done in verifications:
        seconds = (f"{done.seconds_before:.1f}", f"{done.seconds_after:.1f}")
        table.add_row(done.instance_id, done.repository, *seconds, _remarks(done))
    return table


def _remarks(verification: Verification) -> str:
    return "\n".join(filter(None, [*verification.problems, verification.note])) or "-"


def _run(
    benchmark: Benchmark, instance: Instance, sandbox_config: SandboxConfig, patch: str
) -> TestResults:
    everything = replace(instance, files={**instance.files, **instance.hidden_files})
    with open_instance_sandbox(sandbox_config, instance) as sandbox:
        benchmark.prepare(everything, sandbox)
        if patch:
            patch_workspace(sandbox, patch)
        tests = [*instance.fail_to_pass, *instance.pass_to_pass]
        return benchmark.run_tests(instance, sandbox, tests)


def _problems(
    instance: Instance, before: Sequence[TestResults], after: Sequence[TestResults]
) -> list[str]:
    if not instance.fail_to_pass:
        return ["zero tests: fail_to_pass is empty"]
    return [
        *_run_problems("before", before),
        *(_run_problems("after", after) if after else []),
        *_status_problems(instance, before[0], after[0] if after else None),
    ]


def _run_problems(when: str, runs: Sequence[TestResults]) -> list[str]:
    """What is wrong with the runs of one side, whatever the tests are meant to show."""
    problems = []
    if any(run.timed_out for run in runs):
        problems.append(f"{when}: timed out")
    elif all(status is TestStatus.MISSING for status in runs[0].statuses.values()):
        last_lines = runs[0].output.strip().splitlines()[-3:]
        problems.append(f"{when}: zero tests ran: {' / '.join(last_lines)}")
    flaky = [test for test in runs[0].statuses if len({run.statuses[test] for run in runs}) > 1]
    return problems + [f"{when}: flaky: {test}" for test in flaky]


def _status_problems(
    instance: Instance, before: TestResults, after: TestResults | None
) -> list[str]:
    problems = []
    for test in instance.fail_to_pass:
        if before.statuses[test] is not TestStatus.FAILED and not before.timed_out:
            problems.append(f"does not fail before: {test} is {before.statuses[test]}")
        if after is not None and after.statuses[test] is not TestStatus.PASSED:
            problems.append(f"does not pass after: {test} is {after.statuses[test]}")
    for test in instance.pass_to_pass:
        was = before.statuses[test]
        becomes = TestStatus.PASSED if after is None else after.statuses[test]
        if (was, becomes) != (TestStatus.PASSED, TestStatus.PASSED):
            then = "" if after is None else f" and {becomes} after"
            problems.append(f"other test: {test} is {was} before{then}")
    return problems
