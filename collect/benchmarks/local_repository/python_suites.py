"""Tests in Python: pytest's, and a command that is judged by its exit status.

A command passes if it ends with success, and its script came to its end: see `script_launcher`.
"""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar

from collect.benchmarks.base import Instance, Language, TestResults, TestStatus
from collect.benchmarks.local_repository.runs import SuiteRun
from collect.benchmarks.pytest_run import ISOLATED, PytestJob, run_to_the_end
from collect.benchmarks.running import run_tests
from collect.benchmarks.testing import statuses
from collect.factory.reasons import read_reasons
from sandbox import Command, CommandResult, Sandbox
from sandbox.debugger.targets import VALUED_OPTIONS
from sandbox.errors import SandboxFileError
from sandbox.scratch import scratch_folder

LAUNCHER = Path(__file__).with_name("script_launcher.py")
_NO_MODULE = re.compile(r"No module named .*")
_NO_TESTS = re.compile(r"^Ran 0 tests in ", re.MULTILINE)


@dataclass(frozen=True)
class PytestSuite:
    """What pytest collects from some paths."""

    paths: tuple[str, ...]
    """Files, folders and node ids."""
    test_paths: tuple[str, ...]
    options: tuple[str, ...] = ()
    language: ClassVar[Language] = "python"

    def run_all(self, sandbox: Sandbox, timeout: float) -> SuiteRun:
        run = run_to_the_end(sandbox, PytestJob(self.paths), timeout)
        return SuiteRun(
            statuses(run.reports),
            run.output,
            run.result.timed_out,
            run.unloaded,
            read_reasons(run.reports),
            run.cut_short,
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
        ran = self._run(sandbox, timeout)
        last = (ran.result.output.strip().splitlines() or [""])[-1]
        unloaded = tuple(_NO_MODULE.findall(last)) if ran.result.exit_code else ()
        if "unittest" in self.command and _NO_TESTS.search(ran.result.output):
            unloaded = (
                "unittest finds no tests: leave benchmark.test_command out to run them with pytest",
            )
        found = {} if unloaded else {self.command: ran.status}
        return SuiteRun(found, ran.output, ran.result.timed_out, unloaded)

    def run(
        self, instance: Instance, sandbox: Sandbox, tests: Sequence[str], timeout: float
    ) -> TestResults:
        ran = self._run(sandbox, timeout)
        return TestResults(
            dict.fromkeys(tests, ran.status),
            ran.output,
            ran.result.timed_out,
            ran.result.seconds,
            tampered=ran.tampered,
        )

    def _run(self, sandbox: Sandbox, timeout: float) -> _Ran:
        options, words = split_options(shlex.split(self.command)[1:])
        token = secrets.token_hex(16)
        launch = f"{_launcher()}\nmain({list(self.test_paths)!r}, {words!r})\n"
        code = f"exec({launch!r}, {{'__name__': 'stepinto_launcher'}})"
        with scratch_folder(sandbox) as folder:
            end = f"{folder}/end"
            sandbox.write_file(end, b"")
            stdin = f"{sandbox.workspace}/{end} {token}\n".encode()
            argv = [
                "sh",
                "-c",
                f'{ISOLATED}; exec "$@"',
                "sh",
                sandbox.python,
                *options,
                "-c",
                code,
            ]
            result = sandbox.run(Command(argv, stdin=stdin, timeout=timeout))
            return _Ran(result, _read(sandbox, end), token)


@dataclass(frozen=True)
class _Ran:
    """One run of a command."""

    result: CommandResult
    end: str
    """What is in the file that the launcher writes at the script's end."""
    token: str

    @property
    def tampered(self) -> str | None:
        """What shows that the program interfered with the run."""
        told, _, problem = self.end.partition("\n")
        if told not in ("", self.token):
            return "the program wrote to the file that tells whether its script came to its end"
        return problem or None

    @property
    def status(self) -> TestStatus:
        if self.result.timed_out:
            return TestStatus.MISSING
        ended = self.end == f"{self.token}\n"
        return TestStatus.PASSED if ended and self.result.exit_code == 0 else TestStatus.FAILED

    @property
    def output(self) -> str:
        early = self.result.exit_code == 0 and not (self.end or self.result.timed_out)
        note = "\nthe process ended before its script did: this counts as a failure\n"
        return self.result.output + (note if early else "")


def split_options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options of Python itself, and the file or `-m MODULE` with its arguments."""
    count = 0
    while count < len(words) and words[count].startswith("-") and words[count] != "-m":
        count += 2 if words[count] in VALUED_OPTIONS else 1
    return list(words[:count]), list(words[count:])


@cache
def _launcher() -> str:
    return LAUNCHER.read_text()


def _read(sandbox: Sandbox, path: str) -> str:
    try:
        return sandbox.read_file(path).decode(errors="replace")
    except SandboxFileError:
        return ""
