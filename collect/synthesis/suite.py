"""A project's test suite: which tests pass, and which lines each one runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from collect.benchmarks.base import TestStatus
from collect.benchmarks.projects.config import FactoryConfig
from collect.benchmarks.projects.project import Project, ProjectRefused
from collect.benchmarks.pytest_run import PytestJob, PytestRun, run_job, statuses
from collect.benchmarks.workspace import with_environment
from sandbox import SandboxConfig, open_sandbox
from sandbox.errors import SandboxUnavailable

PLUGIN = "stepinto_coverage"
CODE_FILE = "code.json"
COVERAGE_FILE = "coverage.json"
SHOWN_OUTPUT = 1500
"""Characters from the end of pytest's output that a message shows."""


class Suite(BaseModel):
    """The results of two runs of the unedited project's suite."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tests: tuple[str, ...]
    """Tests that passed in both runs, in run order."""
    seconds: Mapping[str, float]
    """Duration of each of `tests` in the second run."""
    failing: int
    """Number of tests that failed or were skipped in both runs."""
    flaky: int
    """Number of tests whose results differ."""
    lines: Mapping[str, Mapping[int, tuple[int, ...]]]
    """For each file and line, the tests that run the line, as indices into `tests`. Without lines
    that run only during imports."""


def run_suite(project: Project, sandbox: SandboxConfig, config: FactoryConfig) -> Suite:
    """Run the suite twice, the first time with coverage.

    Raises ProjectRefused if too few tests pass, or none runs the project's code; SandboxError.
    """
    inputs = {CODE_FILE: json.dumps(project.code_paths).encode()}
    plugin = Path(__file__).with_name("coverage_plugin.py").read_bytes()
    watched = PytestJob(project.test_paths, None, {PLUGIN: plugin}, inputs, (COVERAGE_FILE,))
    first = _run(project, sandbox, config, watched)
    if COVERAGE_FILE not in first.outputs:
        _refuse(project, first, config)
    second = _run(project, sandbox, config, PytestJob(project.test_paths))
    if second.result.timed_out:
        _refuse(project, second, config)
    suite = _suite(first, second)
    if len(suite.tests) < config.min_tests:
        raise ProjectRefused(
            f"{project.source.slug}: only {len(suite.tests)} tests pass, fewer than "
            f"factory.min_tests ({config.min_tests}); the last lines of its suite:\n{_end(second)}"
        )
    if not suite.lines:
        raise ProjectRefused(
            f"{project.source.slug}: its tests run no line of its files; set import_paths to the "
            "folder that its packages lie in"
        )
    return suite


def _run(
    project: Project, sandbox: SandboxConfig, config: FactoryConfig, job: PytestJob
) -> PytestRun:
    with open_sandbox(with_environment(sandbox, project.environment)) as opened:
        opened.write_files(project.source.files)
        return run_job(opened, job, config.suite_timeout)


def _refuse(project: Project, run: PytestRun, config: FactoryConfig) -> None:
    if "No module named 'coverage'" in run.output:
        raise SandboxUnavailable(
            "the sandbox's Python has no coverage.py: install it there, or set sandbox.python to "
            "an interpreter that has it"
        )
    if run.result.timed_out:
        raise ProjectRefused(
            f"{project.source.slug}: its suite did not end in factory.suite_timeout "
            f"({config.suite_timeout:.0f} s); name fewer `tests`, or raise it"
        )
    raise ProjectRefused(f"{project.source.slug}: its suite does not run:\n{_end(run)}")


def _suite(first: PytestRun, second: PytestRun) -> Suite:
    one, two = statuses(first.reports), statuses(second.reports)
    everything = {**one, **two}
    flaky = {test for test in everything if one.get(test) is not two.get(test)}
    passed = [t for t in everything if t not in flaky and two[t] is TestStatus.PASSED]
    seconds = dict.fromkeys(passed, 0.0)
    for report in second.reports:
        test = str(report["nodeid"])
        if test in seconds:
            seconds[test] += float(str(report["seconds"]))
    return Suite(
        tests=tuple(passed),
        seconds=seconds,
        failing=len(everything) - len(passed) - len(flaky),
        flaky=len(flaky),
        lines=_lines(first, passed),
    )


def _lines(run: PytestRun, passed: list[str]) -> dict[str, dict[int, tuple[int, ...]]]:
    covered = json.loads(run.outputs[COVERAGE_FILE])
    index = {test: number for number, test in enumerate(passed)}
    renumbered = [index.get(test) for test in covered["tests"]]
    lines: dict[str, dict[int, tuple[int, ...]]] = {}
    for path, by_line in covered["lines"].items():
        for line, tests in by_line.items():
            kept = tuple(sorted(n for n in (renumbered[each] for each in tests) if n is not None))
            if kept:
                lines.setdefault(path, {})[int(line)] = kept
    return lines


def _end(run: PytestRun) -> str:
    return run.output.strip()[-SHOWN_OUTPUT:]
