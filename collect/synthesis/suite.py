"""A project's test suite: which tests pass, and which lines each one runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from collect.benchmarks.base import TestStatus
from collect.benchmarks.projects.config import FactoryConfig
from collect.benchmarks.projects.project import Project, ProjectRefused
from collect.benchmarks.pytest_run import PytestJob, PytestRun, run_job, statuses
from collect.benchmarks.workspace import with_environment
from sandbox import SandboxConfig, open_sandbox
from sandbox.errors import SandboxUnavailable

COVERAGE_FILE = "coverage.json"
SHOWN_OUTPUT = 1500
"""Characters from the end of the runner's output that a message shows."""


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


def read_suite(
    project: Project,
    config: FactoryConfig,
    first: Mapping[str, TestStatus],
    second: Mapping[str, TestStatus],
    *,
    seconds: Iterable[tuple[str, float]],
    covered: Mapping[str, Mapping[int, Iterable[str]]],
    output: str,
) -> Suite:
    """Build the suite from the statuses of two runs.

    `seconds` are durations of tests or their phases, `covered` the tests that run each file's
    lines. Raises ProjectRefused if too few tests pass, or none runs the project's code.
    """
    everything = {**first, **second}
    flaky = {test for test in everything if first.get(test) is not second.get(test)}
    passed = [t for t in everything if t not in flaky and second[t] is TestStatus.PASSED]
    if len(passed) < config.min_tests:
        raise ProjectRefused(
            f"{project.source.slug}: only {len(passed)} tests pass, fewer than factory.min_tests "
            f"({config.min_tests}), of {len(everything)} that were run; the last lines of its "
            f"suite:\n{output.strip()[-SHOWN_OUTPUT:]}"
        )
    durations = dict.fromkeys(passed, 0.0)
    for test, duration in seconds:
        if test in durations:
            durations[test] += duration
    index = {test: number for number, test in enumerate(passed)}
    lines: dict[str, dict[int, tuple[int, ...]]] = {}
    for path, by_line in covered.items():
        for line, tests in sorted(by_line.items()):
            kept = tuple(sorted(index[test] for test in tests if test in index))
            if kept:
                lines.setdefault(path, {})[line] = kept
    if not lines:
        raise ProjectRefused(
            f"{project.source.slug}: its tests run no line of its files; if it is Python, set "
            "import_paths to the folder that its packages lie in"
        )
    return Suite(
        tests=tuple(passed),
        seconds=durations,
        failing=len(everything) - len(passed) - len(flaky),
        flaky=len(flaky),
        lines=lines,
    )


def run_suite(project: Project, sandbox: SandboxConfig, config: FactoryConfig) -> Suite:
    """Run a Python project's suite twice, the first time with coverage.

    Raises ProjectRefused, SandboxError.
    """
    inputs = {"code.json": json.dumps(project.code_paths).encode()}
    plugins = {"stepinto_coverage": Path(__file__).with_name("coverage_plugin.py").read_bytes()}
    watched = PytestJob(project.test_paths, None, plugins, inputs, (COVERAGE_FILE,))
    first = _run(project, sandbox, config, watched)
    if COVERAGE_FILE not in first.outputs:
        raise _refusal(project, first, config)
    second = _run(project, sandbox, config, PytestJob(project.test_paths))
    if second.result.timed_out:
        raise _refusal(project, second, config)
    coverage = json.loads(first.outputs[COVERAGE_FILE])
    names = coverage["tests"]
    return read_suite(
        project,
        config,
        statuses(first.reports),
        statuses(second.reports),
        seconds=[(str(each["nodeid"]), float(str(each["seconds"]))) for each in second.reports],
        covered={
            path: {int(line): [names[test] for test in tests] for line, tests in by_line.items()}
            for path, by_line in coverage["lines"].items()
        },
        output=second.output,
    )


def _run(
    project: Project, sandbox: SandboxConfig, config: FactoryConfig, job: PytestJob
) -> PytestRun:
    with open_sandbox(with_environment(sandbox, project.environment)) as opened:
        opened.write_files(project.source.files)
        return run_job(opened, job, config.suite_timeout)


def _refusal(project: Project, run: PytestRun, config: FactoryConfig) -> Exception:
    if "No module named 'coverage'" in run.output:
        return SandboxUnavailable(
            "the sandbox's Python has no coverage.py: install it there, or set sandbox.python to "
            "an interpreter that has it"
        )
    if run.result.timed_out:
        return ProjectRefused(
            f"{project.source.slug}: its suite did not end in factory.suite_timeout "
            f"({config.suite_timeout:.0f} s); name fewer `tests`, or raise it"
        )
    end = run.output.strip()[-SHOWN_OUTPUT:]
    return ProjectRefused(f"{project.source.slug}: its suite does not run:\n{end}")
