"""Run pytest tests in a sandbox, and learn each test's status from pytest itself."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence

from collect.benchmarks.base import TestResults, TestStatus
from collect.benchmarks.pytest_run import PytestJob, run_job
from sandbox import Sandbox
from sandbox.errors import SandboxFileError

RUNNER_FILES = frozenset(
    {"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini"}
    | {"setup.cfg", "pyproject.toml"}
)
"""Names of the files, in any folder, that pytest takes hooks and settings from."""


def run_pytest(sandbox: Sandbox, tests: Sequence[str], timeout: float) -> TestResults:
    """Run exactly these node ids, relative to the workspace, in one pytest process.

    `timeout` is in seconds and for the whole run; when it strikes, the tests that ended before it
    keep their status. A node id that does not exist is MISSING and leaves the others alone. Raises
    SandboxUnavailable where the sandbox's Python has no pytest.
    """
    files = [file for file in _files(tests) if _exists(sandbox, file)]
    if not files:
        missing = dict.fromkeys(tests, TestStatus.MISSING)
        return TestResults(missing, "none of the test files exists")
    run = run_job(sandbox, PytestJob(files, tests), timeout)
    found = statuses(run.reports)
    return TestResults(
        {test: found.get(test, TestStatus.MISSING) for test in tests},
        run.output,
        run.result.timed_out,
        run.result.seconds,
    )


def statuses(reports: Iterable[Mapping[str, object]]) -> dict[str, TestStatus]:
    """The status of every test that was reported, in the order of the run."""
    phases: dict[str, list[Mapping[str, object]]] = {}
    for report in reports:
        phases.setdefault(str(report["nodeid"]), []).append(report)
    return {test: _status(of_test) for test, of_test in phases.items()}


def steers_tests(path: str) -> bool:
    """Whether pytest takes hooks or settings from a file."""
    return posixpath.basename(path) in RUNNER_FILES


def _files(tests: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(test.partition("::")[0] for test in tests))


def _exists(sandbox: Sandbox, path: str) -> bool:
    try:
        sandbox.read_file(path)
    except SandboxFileError:
        return False
    return True


def _status(phases: Sequence[Mapping[str, object]]) -> TestStatus:
    """One test's status from its phases; an expected failure counts as passed."""
    if any(phase["outcome"] == "failed" for phase in phases):
        return TestStatus.FAILED
    if not any(phase["when"] == "teardown" for phase in phases):
        return TestStatus.MISSING
    if any(phase["outcome"] == "skipped" and not phase["xfail"] for phase in phases):
        return TestStatus.SKIPPED
    return TestStatus.PASSED
