"""Verify bugs: their tests must fail before the gold patch and pass after it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.table import Table

from collect.benchmarks.base import Benchmark, Instance, TestResults, TestStatus
from collect.benchmarks.marks import (
    EnvironmentFingerprint,
    Finding,
    Mark,
    Verification,
    Verifications,
    with_verifications,
)
from collect.benchmarks.workspace import open_instance_sandbox, patch_workspace
from collect.code.patches import PatchError
from collect.errors import InfrastructureFailure
from collect.threads import run_in_threads
from sandbox import SandboxConfig
from sandbox.errors import CommandRefused, SandboxError, SandboxFileError

# Derive findings from test runs before and after the gold patch.


MAX_FINDINGS = 25
"""Limit of findings reported individually per mark."""
LAST_LINES = 3


def judged(
    instance: Instance, before: Sequence[TestResults], after: Sequence[TestResults]
) -> tuple[Finding, ...]:
    """The findings of one bug; `after` is empty if there is no gold patch."""
    if not instance.fail_to_pass:
        return (Finding(mark=Mark.ZERO_TESTS, text="zero tests: fail_to_pass is empty"),)
    findings = [*_of_runs("before", before), *(_of_runs("after", after) if after else ())]
    if not any(finding.mark is Mark.ZERO_TESTS for finding in findings):
        findings += _of_statuses(instance, before, after)
    return _bounded(findings)


def _of_runs(when: str, runs: Sequence[TestResults]) -> Iterator[Finding]:
    """Problems of one side's runs, whatever the tests should show."""
    if any(run.timed_out for run in runs):
        # The bug may be an endless loop: then nothing is wrong, but it takes its time.
        mark = Mark.SLOW if when == "before" else Mark.BROKEN
        yield Finding(mark=mark, text=f"{when}: timed out")
    elif all(status is TestStatus.MISSING for status in runs[0].statuses.values()):
        said = " / ".join(runs[0].output.strip().splitlines()[-LAST_LINES:])
        yield Finding(mark=Mark.ZERO_TESTS, text=f"{when}: zero tests ran: {said}")
    cut_short = next((run.cut_short for run in runs if run.cut_short), None)
    if cut_short is not None and when == "after":
        # Before the patch, this may be the bug.
        yield _broken(f"{when}: {cut_short}")
    for test in _unsteady(runs):
        yield Finding(mark=Mark.FLAKY, text=f"{when}: flaky: {test}")


def _of_statuses(
    instance: Instance, before: Sequence[TestResults], after: Sequence[TestResults]
) -> Iterator[Finding]:
    """Findings for tests with the same result in every run, if it is not what the bug claims."""
    unsteady = {*_unsteady(before), *_unsteady(after)}
    for test in instance.fail_to_pass:
        if test not in unsteady:
            yield from _of_failing(test, before[0], after[0] if after else None)
    for test in instance.pass_to_pass:
        if test not in unsteady:
            yield from _of_passing(instance, test, before[0], after[0] if after else None)


def _of_failing(test: str, before: TestResults, after: TestResults | None) -> Iterator[Finding]:
    if before.statuses[test] is not TestStatus.FAILED and not before.timed_out:
        yield _broken(f"does not fail before: {test} is {before.statuses[test]}")
    if after is not None and after.statuses[test] is not TestStatus.PASSED:
        yield _broken(f"does not pass after: {test} is {after.statuses[test]}")


def _of_passing(
    instance: Instance, test: str, before: TestResults, after: TestResults | None
) -> Iterator[Finding]:
    fine = {TestStatus.PASSED, *([TestStatus.SKIPPED] if instance.skips_count else [])}
    was = before.statuses[test]
    unknown = before.timed_out and was is TestStatus.MISSING
    becomes = TestStatus.PASSED if after is None else after.statuses[test]
    if (was not in fine and not unknown) or becomes not in fine:
        then = "" if after is None else f" and {becomes} after"
        yield _broken(f"other test: {test} is {was} before{then}")


def _unsteady(runs: Sequence[TestResults]) -> list[str]:
    """Tests whose results differ between runs."""
    tests = runs[0].statuses if runs else ()
    return [test for test in tests if len({run.statuses[test] for run in runs}) > 1]


def _broken(text: str) -> Finding:
    return Finding(mark=Mark.BROKEN, text=text)


def _bounded(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The first findings of each mark, and the number of further ones."""
    counts: Counter[Mark] = Counter()
    kept = []
    for finding in findings:
        counts[finding.mark] += 1
        if counts[finding.mark] <= MAX_FINDINGS:
            kept.append(finding)
    kept += [
        Finding(mark=mark, text=f"and {count - MAX_FINDINGS} more like these ({mark})")
        for mark, count in counts.items()
        if count > MAX_FINDINGS
    ]
    return tuple(kept)


DISK_IS_FULL = "No space left on device"


@dataclass(frozen=True)
class VerifySettings:
    """Which bugs to verify, and how."""

    repeats: int = 1
    """Runs on each side of the gold patch; flaky tests show only in more than one."""
    slow_over: float | None = None
    """A bug is marked slow if one run takes more seconds than this."""
    workers: int = 2
    """Number of bugs verified in parallel."""
    again: bool = False
    """Whether to repeat earlier verifications."""


def verify_instance(
    benchmark: Benchmark,
    instance: Instance,
    sandbox_config: SandboxConfig,
    repeats: int = 1,
    *,
    slow_over: float | None = None,
    ran_in: EnvironmentFingerprint | None = None,
) -> Verification:
    """Run the tests before and after the gold patch, `repeats` times, each in a fresh sandbox.

    Without a gold patch, only before. If the sandbox or the machine fails, the verification reports
    that, and nothing about the bug.
    """
    name = ""
    try:
        name = (ran_in or EnvironmentFingerprint(sandbox_config)).name(instance)
        before = [_run(benchmark, instance, sandbox_config, "") for _ in range(repeats)]
        after = [
            _run(benchmark, instance, sandbox_config, instance.gold_patch)
            for _ in range(repeats if instance.gold_patch else 0)
        ]
    except (PatchError, SandboxFileError, CommandRefused) as error:
        text = f"{type(error).__name__}: {error}"
        finding = Finding(mark=Mark.BROKEN, text=text)
        return _unless_disk_is_full(Verification.of(instance, name, findings=(finding,)), text)
    except (SandboxError, InfrastructureFailure, OSError) as error:
        return Verification.of(instance, name, failure=f"{type(error).__name__}: {error}")
    verification = Verification.of(
        instance,
        name,
        findings=judged(instance, before, after),
        repeats=repeats,
        seconds_before=max(run.seconds for run in before),
        seconds_after=max((run.seconds for run in after), default=0.0),
        slow_over=slow_over,
    )
    return _unless_disk_is_full(verification, *(run.output for run in [*before, *after]))


def verify(
    benchmark: Benchmark,
    instances: Sequence[Instance],
    sandbox_config: SandboxConfig,
    settings: VerifySettings | None = None,
    *,
    verifications: Verifications | None = None,
    on_done: Callable[[Verification], None] = lambda _: None,
) -> list[Verification]:
    """Verify bugs in parallel, and store the results in `verifications`; returns them in input
    order.

    A stored verification with enough runs is reused. `on_done` is called for each bug from worker
    threads. After Ctrl-C, bugs not verified yet are missing.
    """
    settings = settings or VerifySettings()
    ran_in = EnvironmentFingerprint(sandbox_config)
    known = {} if settings.again else _known(instances, verifications, ran_in, settings)
    done: dict[str, Verification] = {}

    def one(instance: Instance) -> None:
        verification = known.get(instance.id) or verify_instance(
            benchmark,
            instance,
            sandbox_config,
            settings.repeats,
            slow_over=settings.slow_over,
            ran_in=ran_in,
        )
        verification = verification.model_copy(update={"slow_over": settings.slow_over})
        is_new = verification != known.get(instance.id)
        if verifications is not None and is_new and not verification.failure:
            verifications.add(verification)
        done[instance.id] = verification
        on_done(verification)

    run_in_threads(instances, one, settings.workers, threading.Event())
    return [done[instance.id] for instance in instances if instance.id in done]


def _known(
    instances: Sequence[Instance],
    verifications: Verifications | None,
    ran_in: EnvironmentFingerprint,
    settings: VerifySettings,
) -> dict[str, Verification]:
    """The stored verifications that can be reused, by instance."""
    if verifications is None:
        return {}
    found = with_verifications(instances, ran_in, verifications)
    return {
        instance.id: each
        for instance, each in found
        if each is not None and each.repeats >= settings.repeats
    }


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


def _unless_disk_is_full(verification: Verification, *outputs: str) -> Verification:
    """On a full disk, test results say nothing about the bug."""
    if not verification.problems or not any(DISK_IS_FULL in output for output in outputs):
        return verification
    failure = f"{DISK_IS_FULL}: make room on this machine, and verify again"
    return verification.model_copy(update={"findings": (), "failure": failure})


# Verifications as a table.


LISTED = 60
"""Up to this many bugs are all listed; of more, only those with problems."""


def verification_table(verifications: Sequence[Verification]) -> Table:
    """One row per bug, and the number of correct bugs."""
    well = sum(verification.ok for verification in verifications)
    table = Table(
        title=f"{well} of {len(verifications)} instances are as they claim",
        caption=", ".join(f"{count} {mark}" for mark, count in mark_counts(verifications).items()),
    )
    for column in ("instance", "repository"):
        table.add_column(column, overflow="fold")
    for column in ("before (s)", "after (s)"):
        table.add_column(column, justify="right")
    for column in ("marks", "problems"):
        table.add_column(column, overflow="fold")
    for done in verifications:
        if len(verifications) <= LISTED or not done.ok:
            seconds = (f"{done.seconds_before:.1f}", f"{done.seconds_after:.1f}")
            marks = ", ".join(done.marks) or "not verified"
            table.add_row(done.instance_id, done.repository, *seconds, marks, _remarks(done))
    return table


def mark_counts(verifications: Sequence[Verification]) -> dict[str, int]:
    """Number of bugs with each mark, the most frequent first; a bug can have several."""
    counts = Counter(
        mark for each in verifications for mark in map(str, each.marks or ["not verified"])
    )
    return dict(counts.most_common())


def _remarks(verification: Verification) -> str:
    return "\n".join(filter(None, [*verification.problems, verification.note])) or "-"
