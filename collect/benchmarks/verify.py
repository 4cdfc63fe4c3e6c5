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

MAX_FINDINGS = 50
"""Limit of findings that are kept of one bug."""
DISK_IS_FULL = "No space left on device"


def judged(
    instance: Instance, before: Sequence[TestResults], after: Sequence[TestResults]
) -> tuple[Finding, ...]:
    """The findings of one bug from its test runs; `after` is empty if there is no gold patch."""
    if not instance.fail_to_pass:
        return (Finding(mark=Mark.ZERO_TESTS, text="zero tests: fail_to_pass is empty"),)
    findings: list[Finding] = []
    unsteady: set[str] = set()
    for when, runs in (("before", before), ("after", after)):
        if any(run.timed_out for run in runs):
            # The bug may be an endless loop: then nothing is wrong, but it takes its time.
            mark = Mark.SLOW if when == "before" else Mark.BROKEN
            findings.append(Finding(mark=mark, text=f"{when}: timed out"))
        elif runs and {*runs[0].statuses.values()} <= {TestStatus.MISSING}:
            said = " / ".join(runs[0].output.strip().splitlines()[-3:])
            text = f"{when}: zero tests ran: {said}"
            findings.append(Finding(mark=Mark.ZERO_TESTS, text=text))
        cut_short = next((run.cut_short for run in runs if run.cut_short), None)
        if cut_short is not None and when == "after":
            # Before the patch, this may be the bug.
            findings.append(Finding(mark=Mark.BROKEN, text=f"{when}: {cut_short}"))
        for test in runs[0].statuses if runs else ():
            if len({run.statuses[test] for run in runs}) > 1:
                unsteady.add(test)
                findings.append(Finding(mark=Mark.FLAKY, text=f"{when}: flaky: {test}"))
    if not any(finding.mark is Mark.ZERO_TESTS for finding in findings):
        texts = _of_statuses(instance, unsteady, before[0], after[0] if after else None)
        findings += [Finding(mark=Mark.BROKEN, text=text) for text in texts]
    if len(findings) > MAX_FINDINGS:
        more = f"and {len(findings) - MAX_FINDINGS} more"
        findings = [*findings[:MAX_FINDINGS], Finding(mark=findings[-1].mark, text=more)]
    return tuple(findings)


def _of_statuses(
    instance: Instance, unsteady: set[str], before: TestResults, after: TestResults | None
) -> Iterator[str]:
    """Tests with the same result in every run, if it is not what the bug claims."""
    for test in instance.fail_to_pass:
        was = before.statuses[test]
        if test in unsteady:
            continue
        if was is not TestStatus.FAILED and not before.timed_out:
            yield f"does not fail before: {test} is {was}"
        if after is not None and after.statuses[test] is not TestStatus.PASSED:
            yield f"does not pass after: {test} is {after.statuses[test]}"
    fine = {TestStatus.PASSED, *([TestStatus.SKIPPED] if instance.skips_count else [])}
    for test in instance.pass_to_pass:
        was = before.statuses[test]
        unknown = before.timed_out and was is TestStatus.MISSING
        becomes = TestStatus.PASSED if after is None else after.statuses[test]
        if test not in unsteady and ((was not in fine and not unknown) or becomes not in fine):
            then = "" if after is None else f" and {becomes} after"
            yield f"other test: {test} is {was} before{then}"


@dataclass(frozen=True)
class VerifySettings:
    repeats: int = 1
    """Runs on each side of the gold patch; flaky tests show only in more than one."""
    slow_over: float | None = None
    """A bug is marked slow if one run takes more seconds than this."""
    workers: int = 2
    again: bool = False


def verify_instance(
    benchmark: Benchmark,
    instance: Instance,
    sandbox_config: SandboxConfig,
    repeats: int = 1,
    *,
    ran_in: EnvironmentFingerprint | None = None,
) -> Verification:
    """Run the tests before and after the gold patch, `repeats` times, each in a fresh sandbox.

    Without a gold patch, only before. If the sandbox or the machine fails, the verification reports
    that, and nothing about the bug.
    """
    name = ""

    def run_tests(patch: str) -> TestResults:
        everything = replace(instance, files={**instance.files, **instance.hidden_files})
        with open_instance_sandbox(sandbox_config, instance) as sandbox:
            benchmark.prepare(everything, sandbox)
            if patch:
                patch_workspace(sandbox, patch)
            tests = [*instance.fail_to_pass, *instance.pass_to_pass]
            return benchmark.run_tests(instance, sandbox, tests)

    try:
        name = (ran_in or EnvironmentFingerprint(sandbox_config)).name(instance)
        before = [run_tests("") for _ in range(repeats)]
        after = [
            run_tests(instance.gold_patch) for _ in range(repeats if instance.gold_patch else 0)
        ]
    except (PatchError, SandboxFileError, CommandRefused) as error:
        text = f"{type(error).__name__}: {error}"
        finding = Finding(mark=Mark.BROKEN, text=text)
        verification = Verification.of(instance, name, findings=(finding,))
        outputs = [text]
    except (SandboxError, InfrastructureFailure, OSError) as error:
        return Verification.of(instance, name, failure=f"{type(error).__name__}: {error}")
    else:
        verification = Verification.of(
            instance,
            name,
            findings=judged(instance, before, after),
            repeats=repeats,
            seconds_before=max(run.seconds for run in before),
            seconds_after=max((run.seconds for run in after), default=0.0),
        )
        outputs = [run.output for run in [*before, *after]]
    if verification.problems and any(DISK_IS_FULL in output for output in outputs):
        # Then test results say nothing about the bug.
        failure = f"{DISK_IS_FULL}: make room on this machine, and verify again"
        return verification.model_copy(update={"findings": (), "failure": failure})
    return verification


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
    known: dict[str, Verification] = {}
    if verifications is not None and not settings.again:
        for instance, found in with_verifications(instances, ran_in, verifications):
            if found is not None and found.repeats >= settings.repeats:
                known[instance.id] = found
    done: dict[str, Verification] = {}

    def one(instance: Instance) -> None:
        verification = known.get(instance.id) or verify_instance(
            benchmark, instance, sandbox_config, settings.repeats, ran_in=ran_in
        )
        verification = verification.model_copy(update={"slow_over": settings.slow_over})
        is_new = verification != known.get(instance.id)
        if verifications is not None and is_new and not verification.failure:
            verifications.add(verification)
        done[instance.id] = verification
        on_done(verification)

    run_in_threads(instances, one, settings.workers, threading.Event())
    return [done[instance.id] for instance in instances if instance.id in done]


LISTED = 60
"""Up to this many bugs are all listed; of more, only those with problems."""
UNVERIFIED = ("not verified",)


def verification_table(verifications: Sequence[Verification]) -> Table:
    well = sum(verification.ok for verification in verifications)
    counts = Counter(str(mark) for each in verifications for mark in each.marks or UNVERIFIED)
    table = Table(
        title=f"{well} of {len(verifications)} instances are as they claim",
        caption=", ".join(f"{count} {mark}" for mark, count in counts.most_common()),
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
            marks = ", ".join(done.marks or UNVERIFIED)
            remarks = "\n".join(filter(None, [*done.problems, done.note])) or "-"
            table.add_row(done.instance_id, done.repository, *seconds, marks, remarks)
    return table
