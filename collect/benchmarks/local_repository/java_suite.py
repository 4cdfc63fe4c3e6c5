"""Tests in Java, as their sources name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from collect.benchmarks.base import Instance, Language, TestResults, TestStatus
from collect.benchmarks.local_repository.runs import SuiteRun
from collect.benchmarks.running import run_tests
from sandbox import Sandbox
from sandbox.java.scan import scan_workspace
from sandbox.java.sources import Sources

TEST_FOLDERS = frozenset({"test", "tests"})
MARKERS = (b"@Test", b"@ParameterizedTest", b"@RepeatedTest", b"@TestFactory", b"TestCase")
"""One of these stands in every source with a test."""


@dataclass(frozen=True)
class JavaSuite:
    """The tests of all modules, built by Maven, Gradle or javac."""

    instance: Instance
    """Without its tests: they are what is looked for."""
    options: ClassVar[tuple[str, ...]] = ()
    language: ClassVar[Language] = "java"

    @property
    def test_paths(self) -> tuple[str, ...]:
        return java_test_paths(self.instance.files)

    def run_all(self, sandbox: Sandbox, timeout: float) -> SuiteRun:
        tests = list(dict.fromkeys(_tests(sandbox, _test_files(self.instance.files))))
        results = self.run(self.instance, sandbox, tests, timeout)
        missing = all(status is TestStatus.MISSING for status in results.statuses.values())
        unloaded = ("the build",) if tests and missing and not results.timed_out else ()
        return SuiteRun(results.statuses, results.output, results.timed_out, unloaded)

    def run(
        self, instance: Instance, sandbox: Sandbox, tests: Sequence[str], timeout: float
    ) -> TestResults:
        return run_tests(instance, sandbox, tests, timeout)


def java_test_paths(files: Mapping[str, bytes]) -> tuple[str, ...]:
    """The outermost folders named for tests that hold some, and test sources elsewhere."""
    found = set()
    for path in _test_files(files):
        parts = path.split("/")
        named = [index for index, part in enumerate(parts[:-1]) if part in TEST_FOLDERS]
        found.add("/".join(parts[: named[0] + 1]) if named else path)
    return tuple(sorted(found))


def _test_files(files: Mapping[str, bytes]) -> list[str]:
    return [
        path
        for path, data in sorted(files.items())
        if path.endswith(".java") and any(marker in data for marker in MARKERS)
    ]


def _tests(sandbox: Sandbox, paths: Sequence[str]) -> Iterator[str]:
    """`package.Class#method` of each, inherited ones by every class that can be made."""
    sources = Sources(sandbox, scan_workspace(sandbox))
    for path in paths:
        for each in sources.outline(path).classes:
            if each.concrete:
                yield from (f"{each.name}#{test.name}" for test in sources.tests(path, each))
