"""Run a project's tests by its own build tool, and read the reports.

Upstream runs the project's workflow and compares JUnit's reports by class and name. The tests'
names are those of the reports, which no runner but the project's own makes the same: names in
words, invocations of parametrised tests. So it is done here too, without the workflow.
"""

from __future__ import annotations

from collections.abc import Sequence

from collect.benchmarks.base import TestResults, TestStatus
from collect.benchmarks.gitbug_java.reports import read_reports, remove_reports
from sandbox import Command, CommandResult, Sandbox
from sandbox.errors import SandboxUnavailable
from sandbox.java.compiler_errors import compiler_errors
from sandbox.java.errors import JavaUnavailable
from sandbox.java.gradle import MISSING, gradle_command
from sandbox.java.jdk import Jdk, find_jdk
from sandbox.java.maven import SKIPPED_CHECKS, maven_command
from sandbox.java.project import BuildKind, Module

MAVEN_OPTIONS = ("-Dmaven.test.failure.ignore=true", "-DfailIfNoTests=false", *SKIPPED_CHECKS)
GRADLE_TASKS = ("test", "--continue")
LAST_LINES = 10


def run_project_tests(
    sandbox: Sandbox, build_tool: str, tests: Sequence[str], timeout: float
) -> TestResults:
    """Run all tests of the workspace, and tell the statuses of these.

    `timeout` is in seconds, for the build as well; when it strikes, the tests whose reports were
    written before keep their status. Raises SandboxUnavailable where the sandbox lacks a JDK or
    the build tool, SandboxError.
    """
    try:
        command = _command(sandbox, find_jdk(sandbox), build_tool)
    except JavaUnavailable as error:
        raise SandboxUnavailable(str(error)) from error
    remove_reports(sandbox)
    result = sandbox.run(Command(command, timeout=timeout))
    if result.exit_code == MISSING:
        raise SandboxUnavailable(
            f"the sandbox has no {build_tool}: install it there, or use an image that has it"
        )
    found = read_reports(sandbox)
    return TestResults(
        {test: found.get(test, TestStatus.MISSING) for test in tests},
        result.output,
        result.timed_out,
        result.seconds,
        build_failure=None if found else _build_failure(sandbox, result),
    )


def _build_failure(sandbox: Sandbox, result: CommandResult) -> str | None:
    """Why no test has reported anything, where that was not for errors in the sources.

    Of a time-out it can't be told whether that was the build's or a test's.
    """
    if result.exit_code == 0 or result.timed_out:
        return None
    if any(compiler_errors(result.output, sandbox.workspace)):
        return None
    return "\n".join(result.output.strip().splitlines()[-LAST_LINES:])


def _command(sandbox: Sandbox, jdk: Jdk, build_tool: str) -> list[str]:
    if build_tool == BuildKind.GRADLE:
        return gradle_command(sandbox, jdk, GRADLE_TASKS)
    return maven_command(sandbox, jdk, Module(BuildKind.MAVEN, ".", "."), MAVEN_OPTIONS)
