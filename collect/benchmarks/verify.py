"""Check that bugs are what they claim: failing before the gold patch, passing after it."""

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
from collect.rollouts.executor import run_in_threads
from sandbox import SandboxConfig
from sandbox.errors import CommandRefused, SandboxError, SandboxFileError

# What test runs before and after a gold patch say is wrong with a bug.


MAX_FINDINGS = 25
"""Of one mark, that are told one by one."""
LAST_LINES = 3


def judged(
    instance: Instance, before: Sequence[TestResults], after: Sequence[TestResults]
) -> tuple[Finding, ...]:
    """The findings of one bug; `after` is empty where no gold patch is known."""
    if not instance.fail_to_pass:
        return (Finding(mark=Mark.ZERO_TESTS, text="zero tests: fail_to_pass is empty"),)
    findings = [*_of_runs("before", before), *(_of_runs("after", after) if after else ())]
    if not any(finding.mark is Mark.ZERO_TESTS for finding in findings):
        findings += _of_statuses(instance, before, after)
    return _bounded(findings)


def _of_runs(when: str, runs: Sequence[TestResults]) -> Iterator[Finding]:
    """What is wrong with the runs of one side, whatever the tests are meant to show."""
    if any(run.timed_out for run in runs):
        # A bug may be that the program does not end: nothing is wrong, but it takes its time.
        mark = Mark.SLOW if when == "before" else Mark.BROKEN
        yield Finding(mark=mark, text=f"{when}: timed out")
    elif all(status is TestStatus.MISSING for status in runs[0].statuses.values()):
        said = " / ".join(runs[0].output.strip().splitlines()[-LAST_LINES:])
        yield Finding(mark=Mark.ZERO_TESTS, text=f"{when}: zero tests ran: {said}")
    cut_short = next((run.cut_short for run in runs if run.cut_short), None)
    if cut_short is not None and when == "after":
        # Before, it may be what is wrong.
        yield _broken(f"{when}: {cut_short}")
    for test in _unsteady(runs):
        yield Finding(mark=Mark.FLAKY, text=f"{when}: flaky: {test}")


def _of_statuses(
    instance: Instance, before: Sequence[TestResults], after: Sequence[TestResults]
) -> Iterator[Finding]:
    """Of the tests that came out the same each time: where that is not as the bug claims."""
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
    """The tests that did not come out the same in each run."""
    tests = runs[0].statuses if runs else ()
    return [test for test in tests if len({run.statuses[test] for run in runs}) > 1]


def _broken(text: str) -> Finding:
    return Finding(mark=Mark.BROKEN, text=text)


def _bounded(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The first of each mark, and how many more there are."""
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
    """How bugs are verified, and which of them."""

    repeats: int = 1
    """Runs on each side of the gold patch; flaky tests show only in more than one."""
    slow_over: float | None = None
    """Seconds of one run over which a bug is marked slow."""
    workers: int = 2
    """Bugs at once."""
    again: bool = False
    """Also those that were verified before."""


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

    Where no gold patch is known, only before. Where the sandbox or the machine does not work, the
    verification says so, and nothing of the bug.
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
    """Verify many at once, and keep what was found in `verifications`; in the order given.

    One that is kept there, with as many runs, is taken from there. `on_done` hears of each from the
    worker threads. Ctrl-C ends it early: those not verified yet are left out.
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
    """The kept verifications that are good enough, by instance."""
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
    """What tests say on a full disk is not the bug's doing."""
    if not verification.problems or not any(DISK_IS_FULL in output for output in outputs):
        return verification
    failure = f"{DISK_IS_FULL}: make room on this machine, and verify again"
    return verification.model_copy(update={"findings": (), "failure": failure})


# Verifications as a table.


LISTED = 60
"""Bugs of which all are listed; of more only those with something wrong."""


def verification_table(verifications: Sequence[Verification]) -> Table:
    """One line a bug, and the count of those that are well."""
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
    """How many bugs have each mark, the most frequent first; a bug can have several."""
    counts = Counter(
        mark for each in verifications for mark in map(str, each.marks or ["not verified"])
    )
    return dict(counts.most_common())


def _remarks(verification: Verification) -> str:
    return "\n".join(filter(None, [*verification.problems, verification.note])) or "-"
