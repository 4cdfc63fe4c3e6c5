"""Run pytest tests in a sandbox, and learn each test's status from pytest itself.

What the program under test prints is never read for a verdict: a plugin reports to a file in a
hidden folder with a random name, which is removed after the run. What steers pytest is not the
agent's to change (`RUNNER_FILES`), and no module of the workspace stands in for pytest itself. Code
under test shares pytest's process all the same: one that sets out to forge the report can.
"""

from __future__ import annotations

import json
import posixpath
import secrets
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from collect.benchmarks.base import TestResults, TestStatus
from sandbox import Command, CommandResult, Sandbox
from sandbox.errors import SandboxFileError, SandboxUnavailable

PLUGIN = "stepinto_pytest_report"
RUNNER_FILES = frozenset(
    {"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini"}
    | {"setup.cfg", "pyproject.toml"}
)
"""Names of the files, in any folder, that pytest takes hooks and settings from."""
REPORT_FIELDS = {"nodeid", "when", "outcome", "xfail"}
# pytest comes from the interpreter; only then the workspace is importable, as by `-m pytest`.
_LAUNCHER = f"""\
import os, sys

if __name__ == "__main__":
    import pytest
    import {PLUGIN}

    sys.path[0] = os.getcwd()
    sys.exit(pytest.main(sys.argv[1:], plugins=[{PLUGIN}]))
"""
_OPTIONS = ("--continue-on-collection-errors", "--maxfail=0", "--color=no", "--tb=short")


def run_pytest(sandbox: Sandbox, tests: Sequence[str], timeout: float) -> TestResults:
    """Run exactly these node ids, relative to the workspace, in one pytest process.

    `timeout` is in seconds and for the whole run; when it strikes, the tests that ended before it
    keep their status. A node id that does not exist is MISSING and leaves the others alone. The
    project's conftest files and ini options apply; installed third-party plugins do not. Raises
    SandboxUnavailable where the sandbox's Python has no pytest.
    """
    files = [file for file in _files(tests) if _exists(sandbox, file)]
    if not files:
        missing = dict.fromkeys(tests, TestStatus.MISSING)
        return TestResults(missing, "none of the test files exists")
    folder = f".stepinto-{secrets.token_hex(8)}"
    try:
        _deliver(sandbox, folder, tests)
        result = sandbox.run(_command(sandbox, folder, files, timeout))
        _refuse_missing_pytest(sandbox, result)
        statuses = _statuses(tests, _read_report(sandbox, folder))
    finally:
        sandbox.run(Command(["rm", "-rf", folder]))
    return TestResults(statuses, _without(folder, result), result.timed_out, result.seconds)


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


def _deliver(sandbox: Sandbox, folder: str, tests: Sequence[str]) -> None:
    plugin = Path(__file__).with_name("pytest_report.py").read_bytes()
    sandbox.write_files(
        {
            f"{folder}/{PLUGIN}.py": plugin,
            f"{folder}/launch.py": _LAUNCHER.encode(),
            f"{folder}/tests.json": json.dumps(list(tests)).encode(),
            # Exists even where pytest ends before the plugin is configured.
            f"{folder}/report.jsonl": b"",
        }
    )


def _command(sandbox: Sandbox, folder: str, files: Sequence[str], timeout: float) -> Command:
    options = ["-p", "no:cacheprovider", *_OPTIONS]
    # Without --rootdir pytest may take the folder of the tests for the root, and shorten the ids.
    rootdir = f"--rootdir={sandbox.workspace}"
    environment = {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    argv = [sandbox.python, f"{folder}/launch.py", *options, rootdir, *files]
    return Command(argv, env=environment, timeout=timeout)


def _refuse_missing_pytest(sandbox: Sandbox, result: CommandResult) -> None:
    if result.output.rstrip().endswith("No module named 'pytest'"):
        raise SandboxUnavailable(
            f"{sandbox.python}, the sandbox's Python, has no pytest: install it there, or set "
            "sandbox.python to an interpreter that has it"
        )


def _read_report(sandbox: Sandbox, folder: str) -> Iterator[dict[str, object]]:
    """What was reported; the program under test may have broken or removed the file."""
    try:
        text = sandbox.read_file(f"{folder}/report.jsonl").decode(errors="replace")
    except SandboxFileError:
        return
    for line in text.split("\n"):
        report = _report(line)
        if report is not None:
            yield report


def _report(line: str) -> dict[str, object] | None:
    try:
        report = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return report if isinstance(report, dict) and report.keys() >= REPORT_FIELDS else None


def _statuses(tests: Sequence[str], reports: Iterable[dict[str, object]]) -> dict[str, TestStatus]:
    phases: dict[str, list[dict[str, object]]] = {test: [] for test in tests}
    for report in reports:
        phases.setdefault(str(report["nodeid"]), []).append(report)
    return {test: _status(phases[test]) for test in tests}


def _status(phases: Sequence[dict[str, object]]) -> TestStatus:
    """One test's status from its phases; an expected failure counts as passed."""
    if any(phase["outcome"] == "failed" for phase in phases):
        return TestStatus.FAILED
    if not any(phase["when"] == "teardown" for phase in phases):
        return TestStatus.MISSING
    if any(phase["outcome"] == "skipped" and not phase["xfail"] for phase in phases):
        return TestStatus.SKIPPED
    return TestStatus.PASSED


def _without(folder: str, result: CommandResult) -> str:
    return result.output.replace(f"{folder}/", "")
