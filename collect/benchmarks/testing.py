"""Run pytest tests in a sandbox, and learn each test's status from pytest itself."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from collect.benchmarks.base import TestResults, TestStatus
from collect.benchmarks.pytest_run import PytestJob, run_to_the_end
from collect.benchmarks.twins import make_twins
from sandbox import Sandbox
from sandbox.errors import SandboxFileError

RUNNER_FILES = frozenset(
    {"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini"}
    | {"setup.cfg", "pyproject.toml"}
)
"""Names of the files, in any folder, that pytest takes hooks and settings from."""
RUNNER_MODULES = frozenset({"pytest", "_pytest", "pluggy", "iniconfig"})
"""Modules that make up pytest."""
STARTED_MODULES = frozenset({"sitecustomize", "usercustomize"})
"""Modules that Python imports by itself, before anything else."""
SHADOWING = RUNNER_MODULES | STARTED_MODULES


def run_pytest(
    sandbox: Sandbox, tests: Sequence[str], timeout: float, deciding: Sequence[str] = ()
) -> TestResults:
    """Run exactly these node ids, relative to the workspace, in one pytest process.

    `timeout` is in seconds and for the whole run; when it strikes, the tests that ended before it
    keep their status. A node id that does not exist is MISSING and leaves the others alone. Where
    the process is ended by one test, each that had not run yet does so on its own. `deciding`: of
    the tests, those that have twins. Raises SandboxUnavailable where the sandbox's Python has no
    pytest.
    """
    sources = _read_files(sandbox, tests)
    if not sources:
        missing = dict.fromkeys(tests, TestStatus.MISSING)
        return TestResults(missing, "none of the test files exists")
    twins = make_twins(deciding, sources) if deciding else None
    run = run_to_the_end(sandbox, PytestJob(list(sources), tests, twins=twins), timeout)
    found = statuses(run.reports)
    results = TestResults(
        {test: found.get(test, TestStatus.MISSING) for test in tests},
        run.output,
        run.result.timed_out,
        run.result.seconds,
        cut_short=run.cut_short,
        tampered="the program wrote to the report of its tests" if run.changed else None,
        replaced=run.replaced,
    )
    if twins is None or not twins.are_needed(results.statuses):
        return results
    replaced = dict.fromkeys(run.replaced, "the program replaced it")
    return replace(results, doubts={**twins.disagreeing(run.reports), **replaced})


def statuses(reports: Iterable[Mapping[str, object]]) -> dict[str, TestStatus]:
    """The status of every test that was reported, in the order of the run."""
    phases: dict[str, list[Mapping[str, object]]] = {}
    for report in reports:
        phases.setdefault(str(report["nodeid"]), []).append(report)
    return {test: _status(of_test) for test, of_test in phases.items()}


def steers_tests(path: str, import_paths: Sequence[str] = ()) -> bool:
    """Whether pytest takes hooks or settings from a file, or Python imports it in the place of
    pytest, or before it, from the tree's root or one of `import_paths`."""
    if posixpath.basename(path) in RUNNER_FILES:
        return True
    return _module_at(path, import_paths) is not None


def runner_in(paths: Iterable[str], import_paths: Sequence[str]) -> str | None:
    """The file of a tree by which the tree brings a pytest of its own; None where it does not."""
    return next((p for p in sorted(paths) if _module_at(p, import_paths) in RUNNER_MODULES), None)


def _module_at(path: str, import_paths: Sequence[str]) -> str | None:
    """The module or package that a file is, or is in, if it can be imported by its name."""
    folders = {
        "",
        *("" if each in (".", "./") else posixpath.normpath(each) for each in import_paths),
    }
    for folder in sorted(folders, key=len, reverse=True):
        if not folder or path.startswith(f"{folder}/"):
            top, _, rest = path.removeprefix(f"{folder}/" if folder else "").partition("/")
            name = top if rest else top.removesuffix(".py")
            if name in RUNNER_MODULES | STARTED_MODULES and path.endswith(".py"):
                return name
    return None


def _read_files(sandbox: Sandbox, tests: Iterable[str]) -> dict[str, bytes]:
    """The files of these tests that are there."""
    files = {}
    for path in dict.fromkeys(test.partition("::")[0] for test in tests):
        with suppress(SandboxFileError):
            files[path] = sandbox.read_file(path)
    return files


def _status(phases: Sequence[Mapping[str, object]]) -> TestStatus:
    """One test's status from its phases; an expected failure counts as passed."""
    if any(phase["outcome"] == "failed" for phase in phases):
        return TestStatus.FAILED
    if not any(phase["when"] == "teardown" for phase in phases):
        return TestStatus.MISSING
    if any(phase["outcome"] == "skipped" and not phase["xfail"] for phase in phases):
        return TestStatus.SKIPPED
    return TestStatus.PASSED
