"""One run of pytest in a sandbox, with plugins of ours that report to a hidden folder.

What the program under test prints is never read for a verdict. What steers pytest is not the
agent's to change (`collect.benchmarks.testing.RUNNER_FILES`), and no module of the workspace stands
in for pytest itself. Code under test shares pytest's process all the same: one that sets out to
forge the report can.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandbox import Command, CommandResult, Sandbox
from sandbox.errors import SandboxFileError, SandboxUnavailable
from sandbox.scratch import scratch_folder

REPORT_PLUGIN = "stepinto_pytest_report"
REPORT_FILE = "report.jsonl"
COLLECTION = "collect"
"""The `when` of what is no phase of a test."""
REPORT_FIELDS = {"nodeid", "when", "outcome", "xfail"}
# pytest comes from the interpreter; only then the workspace is importable, as by `-m pytest`.
_LAUNCHER = """\
import os, sys

if __name__ == "__main__":
    import pytest
    plugins = [__import__(name) for name in {plugins!r}]
    sys.path[0] = os.getcwd()
    sys.exit(pytest.main(sys.argv[1:], plugins=plugins))
"""
_OPTIONS = ("--continue-on-collection-errors", "--maxfail=0", "--color=no", "--tb=short")


@dataclass(frozen=True)
class PytestJob:
    """What to run."""

    paths: Sequence[str]
    """Files and folders that pytest collects from, relative to the workspace."""
    tests: Sequence[str] | None = None
    """Node ids, and nothing else runs; None: everything that is collected."""
    plugins: Mapping[str, bytes] = field(default_factory=dict)
    """Source of further plugins, by the name of their module. They lie in one folder with what
    `inputs` names, and may write files there."""
    inputs: Mapping[str, bytes] = field(default_factory=dict)
    outputs: Sequence[str] = ()
    """Files that the plugins write, read back after the run."""


@dataclass(frozen=True)
class PytestRun:
    """What came of it."""

    result: CommandResult
    reports: Sequence[Mapping[str, object]]
    """A phase of a test each, in order, as `pytest_report` writes them."""
    outputs: Mapping[str, bytes]
    """Those that were written."""
    unloaded: tuple[str, ...]
    """Files that could not be collected: most often, imported."""

    @property
    def output(self) -> str:
        """What pytest printed."""
        return self.result.output


def run_job(sandbox: Sandbox, job: PytestJob, timeout: float) -> PytestRun:
    """Run one pytest process; `timeout` is in seconds, and what was reported before it is kept.

    The project's conftest files and ini options apply; installed third-party plugins only where
    PYTEST_PLUGINS names them. Raises SandboxUnavailable where the sandbox's Python has no pytest.
    """
    with scratch_folder(sandbox) as folder:
        sandbox.write_files({f"{folder}/{name}": data for name, data in _files(job).items()})
        result = sandbox.run(_command(sandbox, folder, job.paths, timeout))
        _refuse_missing_pytest(sandbox, result)
        written = {name: _read(sandbox, f"{folder}/{name}") for name in (REPORT_FILE, *job.outputs)}
    outputs = {name: data for name, data in written.items() if data is not None}
    reports = list(_reports(outputs.pop(REPORT_FILE, b"")))
    phases = [each for each in reports if each["when"] != COLLECTION]
    unloaded = [str(each["nodeid"]) for each in reports if each["when"] == COLLECTION]
    return PytestRun(_without(folder, result), phases, outputs, tuple(dict.fromkeys(unloaded)))


def _files(job: PytestJob) -> dict[str, bytes]:
    report = Path(__file__).with_name("pytest_report.py").read_bytes()
    tests = None if job.tests is None else list(job.tests)
    return {
        f"{REPORT_PLUGIN}.py": report,
        **{f"{name}.py": source for name, source in job.plugins.items()},
        "launch.py": _LAUNCHER.format(plugins=[REPORT_PLUGIN, *job.plugins]).encode(),
        "tests.json": json.dumps(tests).encode(),
        # Exists even where pytest ends before the plugin is configured.
        REPORT_FILE: b"",
        **job.inputs,
    }


def _command(sandbox: Sandbox, folder: str, paths: Sequence[str], timeout: float) -> Command:
    options = ["-p", "no:cacheprovider", *_OPTIONS]
    # Without --rootdir pytest may take the folder of the tests for the root, and shorten the ids.
    rootdir = f"--rootdir={sandbox.workspace}"
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    argv = [sandbox.python, f"{folder}/launch.py", *options, rootdir, *paths]
    return Command(argv, env=environment, timeout=timeout)


def _refuse_missing_pytest(sandbox: Sandbox, result: CommandResult) -> None:
    if result.output.rstrip().endswith("No module named 'pytest'"):
        raise SandboxUnavailable(
            f"{sandbox.python}, the sandbox's Python, has no pytest: install it there, or set "
            "sandbox.python to an interpreter that has it"
        )


def _read(sandbox: Sandbox, path: str) -> bytes | None:
    """The program under test may have removed the file."""
    try:
        return sandbox.read_file(path)
    except SandboxFileError:
        return None


def _reports(data: bytes) -> Iterator[dict[str, object]]:
    """The program under test may have written to the file, too."""
    for line in data.decode(errors="replace").split("\n"):
        try:
            report = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(report, dict) and report.keys() >= REPORT_FIELDS:
            yield report


def _without(folder: str, result: CommandResult) -> CommandResult:
    return replace(result, output=result.output.replace(f"{folder}/", ""))
