"""What test runs before and after a gold patch say is wrong with a bug."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from collect.benchmarks.base import Instance, TestResults, TestStatus
from collect.benchmarks.marks import Finding, Mark

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
