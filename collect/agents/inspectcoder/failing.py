"""Finds the public test that a version of the program fails, with the test runner's output."""

from __future__ import annotations

import ast
import re

from collect.agents.inspectcoder.records import FailingTest
from collect.benchmarks.base import Benchmark, Instance, TestStatus
from collect.benchmarks.pytest_run import section_of
from collect.code.syntax import parse
from collect.errors import InfrastructureFailure
from sandbox import Sandbox
from sandbox.base import SOURCE_LIMIT
from sandbox.errors import SandboxFileError
from sandbox.text import source_lines

FROZEN = re.compile(r"^<frozen .*\n    \?\?\?\n", re.MULTILINE)
"""Frames of the interpreter's own code in pytest's traceback."""
MAX_ERROR_LINES = 60
MAX_ERROR_CHARS = 6_000


def first_failing(benchmark: Benchmark, instance: Instance, sandbox: Sandbox) -> FailingTest | None:
    """Run the public tests of the workspace. Returns the first that fails, or None if all pass.

    Raises InfrastructureFailure if the bug has no public test, SandboxError.
    """
    tests = instance.public_tests
    if not tests:
        raise InfrastructureFailure(
            f"{instance.id} has no public test to repair by; leave it out with benchmark.instances"
        )
    results = benchmark.run_tests(instance, sandbox, tests)
    failing = next((t for t in tests if results.statuses[t] is not TestStatus.PASSED), None)
    if failing is None:
        return None
    if results.timed_out and results.statuses[failing] is TestStatus.MISSING:
        error = f"The test did not end within {results.seconds:.0f} seconds and was killed."
    else:
        error = FROZEN.sub("", section_of(failing, results.output))
    return FailingTest(failing, test_source(sandbox, failing), shortened(error))


def shortened(text: str, max_lines: int = MAX_ERROR_LINES, max_chars: int = MAX_ERROR_CHARS) -> str:
    """A text without its middle if it is too long, with a note about it."""
    lines = text.splitlines()
    if len(lines) > max_lines:
        head, tail = max_lines // 2, max_lines - max_lines // 2
        left_out = f"... ({len(lines) - max_lines} lines left out) ..."
        lines = [*lines[:head], left_out, *lines[-tail:]]
    text = "\n".join(lines)
    if len(text) <= max_chars:
        return text
    half = max_chars // 2
    return f"{text[:half]}\n... ({len(text) - 2 * half} characters left out) ...\n{text[-half:]}"


def test_source(sandbox: Sandbox, test: str) -> str:
    """The code of a pytest test with line numbers; empty if it is not found."""
    path, *names = test.partition("[")[0].split("::")
    try:
        text = sandbox.read_file(path, SOURCE_LIMIT).decode("utf-8", "replace")
        scope: ast.AST = parse(text)
    except (SandboxFileError, SyntaxError, ValueError):
        return ""
    for name in names:
        inner = [n for n in ast.iter_child_nodes(scope) if getattr(n, "name", None) == name]
        if not inner:
            return ""
        scope = inner[-1]
    if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        return ""
    return numbered(text, scope.lineno, scope.end_lineno or scope.lineno)


def numbered(code: str, first: int = 1, last: int | None = None) -> str:
    """Lines of a program with their numbers."""
    lines = source_lines(code)[first - 1 : last]
    return "\n".join(f"{number:>4}  {line}" for number, line in enumerate(lines, first))
