"""Tests in Python: pytest's, and a command that is judged by its exit status."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from collect.benchmarks.base import Instance, Language, TestResults, TestStatus
from collect.benchmarks.local_repository.runs import SuiteRun
from collect.benchmarks.pytest_run import PytestJob, run_job
from collect.benchmarks.running import run_tests
from collect.benchmarks.testing import statuses
from collect.factory.reasons import read_reasons
from sandbox import Command, CommandResult, Sandbox

_NO_MODULE = re.compile(r"No module named .*")


@dataclass(frozen=True)
class PytestSuite:
    """What pytest collects from some paths."""

    paths: tuple[str, ...]
    """Files, folders and node ids."""
    test_paths: tuple[str, ...]
    options: tuple[str, ...] = ()
    language: ClassVar[Language] = "python"

    def run_all(self, sandbox: Sandbox, timeout: float) -> SuiteRun:
        run = run_job(sandbox, PytestJob(self.paths), timeout)
        return SuiteRun(
            statuses(run.reports),
            run.output,
            run.result.timed_out,
            run.unloaded,
            read_reasons(run.reports),
        )

    def run(
        self, instance: Instance, sandbox: Sandbox, tests: Sequence[str], timeout: float
    ) -> TestResults:
        return run_tests(instance, sandbox, tests, timeout)


@dataclass(frozen=True)
class CommandSuite:
    """One test, named by its command: a Python script or module with its arguments."""

    command: str
    test_paths: tuple[str, ...]
    options: ClassVar[tuple[str, ...]] = ()
    language: ClassVar[Language] = "python"

    def run_all(self, sandbox: Sandbox, timeout: float) -> SuiteRun:
        result = self._run(sandbox, timeout)
        last = (result.output.strip().splitlines() or [""])[-1]
        unloaded = tuple(_NO_MODULE.findall(last)) if result.exit_code else ()
        found = {self.command: _status(result)}
        return SuiteRun({} if unloaded else found, result.output, result.timed_out, unloaded)

    def run(
        self, instance: Instance, sandbox: Sandbox, tests: Sequence[str], timeout: float
    ) -> TestResults:
        result = self._run(sandbox, timeout)
        found = {test: _status(result) for test in tests}
        return TestResults(found, result.output, result.timed_out, result.seconds)

    def _run(self, sandbox: Sandbox, timeout: float) -> CommandResult:
        _, *arguments = shlex.split(self.command)
        return sandbox.run(Command([sandbox.python, *arguments], timeout=timeout))


def _status(result: CommandResult) -> TestStatus:
    if result.timed_out:
        return TestStatus.MISSING
    return TestStatus.FAILED if result.exit_code else TestStatus.PASSED
