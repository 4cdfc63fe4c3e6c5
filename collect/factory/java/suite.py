"""A Java project's own test suite: what passes, and which lines each test runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from collect.benchmarks.base import TestStatus
from collect.factory.config import FactoryConfig
from collect.factory.java.traces import TracedBuild
from collect.factory.project import Project, ProjectRefused
from collect.factory.suite import SHOWN_OUTPUT, Suite
from collect.java_tree import line_of, parse, walk
from collect.mutations.java.variables import CLASSES

Report = Mapping[str, object]
_WORST = ("failed", "skipped", "passed")


@dataclass(frozen=True)
class SuiteRuns:
    """What the runner reported of two runs of a suite."""

    first: Sequence[Report]
    second: Sequence[Report]
    hits: Sequence[str]
    """What `Trace` wrote in the first one."""
    output: str
    """What was printed in the first one."""


def read_suite(
    project: Project,
    config: FactoryConfig,
    runs: SuiteRuns,
    traced: TracedBuild,
) -> Suite:
    """What two runs showed.

    Raises ProjectRefused where too few tests pass, or none runs the project's code.
    """
    one, two = suite_statuses(runs.first), suite_statuses(runs.second)
    once = [test for test, status in one.items() if status is TestStatus.PASSED]
    passed = [test for test in once if two.get(test) is TestStatus.PASSED]
    flaky = len(once) - len(passed)
    if len(passed) < config.min_tests:
        raise ProjectRefused(
            f"{project.source.slug}: only {len(passed)} tests pass, fewer than factory.min_tests "
            f"({config.min_tests}), of {len(one)} that were run; the last lines of its suite:\n"
            f"{runs.output[-SHOWN_OUTPUT:]}"
        )
    lines = _lines(project, passed, runs.hits, traced)
    if not lines:
        raise ProjectRefused(f"{project.source.slug}: its tests run no line of its files")
    seconds = dict.fromkeys(passed, 0.0)
    for report in runs.second:
        test = str(report["test"])
        if test in seconds:
            seconds[test] += float(str(report.get("seconds", 0.0)))
    return Suite(
        tests=tuple(passed),
        seconds=seconds,
        failing=len(one) - len(once),
        flaky=flaky,
        lines=lines,
    )


def suite_statuses(reports: Sequence[Report]) -> dict[str, TestStatus]:
    """The status of each test method, in the order of the run; one failed invocation is enough."""
    reported: dict[str, set[str]] = {}
    for report in reports:
        if "#" in str(report["test"]):
            reported.setdefault(str(report["test"]), set()).add(str(report["status"]))
    return {
        test: TestStatus(next((status for status in _WORST if status in own), "missing"))
        for test, own in reported.items()
    }


def _lines(
    project: Project, passed: Sequence[str], hits: Iterable[str], traced: TracedBuild
) -> dict[str, dict[int, tuple[int, ...]]]:
    index = {test: number for number, test in enumerate(passed)}
    code = set(project.code_paths)
    found: dict[str, dict[int, set[int]]] = {}
    for entry in hits:
        test, _, numbers = entry.partition("\t")
        for number in map(int, filter(None, numbers.split(","))):
            path, line = traced.statements[number]
            if test in index and path in code:
                found.setdefault(path, {}).setdefault(line, set()).add(index[test])
    for path, lines in found.items():
        _add_fields(project.source.files[path], lines)
    return {
        path: {line: tuple(sorted(tests)) for line, tests in sorted(lines.items())}
        for path, lines in found.items()
    }


def _add_fields(source: bytes, lines: dict[int, set[int]]) -> None:
    """A field's value matters to every test that runs code of its class."""
    statements = dict(lines)
    for node in walk(parse(source)):
        if node.type not in CLASSES:
            continue
        first, last = line_of(node), node.end_point.row + 1
        inside = [tests for line, tests in statements.items() if first <= line <= last]
        body = node.child_by_field_name("body")
        for member in body.named_children if body is not None else ():
            if inside and member.type in ("field_declaration", "enum_constant"):
                lines[line_of(member)] = set().union(*inside)
