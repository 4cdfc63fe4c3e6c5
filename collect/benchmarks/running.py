"""Run a bug's tests in any language, and find the changes in a patch that an agent must not make.

Only this module distinguishes the languages: benchmarks and scoring know only statuses.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence
from functools import cached_property

from collect.benchmarks import java_run, pytest_run
from collect.benchmarks.base import Instance, TestResults
from collect.code.patches import PatchError, changed_paths, named_files, parse
from sandbox import Sandbox
from sandbox.java.project import is_build_file

BUILD_FOLDERS = frozenset({"target", "build", ".gradle"})
"""Output folders of Maven and Gradle in each module."""


def run_tests(
    instance: Instance, sandbox: Sandbox, tests: Sequence[str], timeout: float
) -> TestResults:
    """Run these tests in a prepared workspace; `timeout` is in seconds, without the build. Raises
    SandboxUnavailable if the sandbox lacks what the language needs, SandboxError."""
    if instance.language == "java":
        return java_run.run_java_tests(sandbox, tests, timeout)
    deciding = instance.fail_to_pass if instance.is_scored else ()
    return pytest_run.run_pytest(sandbox, tests, timeout, deciding)


class StoredBenchmark:
    """The parts of a benchmark that most have in common: its instances hold their files."""

    test_timeout: float
    """Seconds for one run of an instance's tests."""

    @cached_property
    def _instances(self) -> tuple[Instance, ...]:
        return tuple(self._read())

    def _read(self) -> Iterable[Instance]:
        """Every instance. Raises ConfigError."""
        raise NotImplementedError

    def instances(self) -> Sequence[Instance]:
        return self._instances

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        sandbox.write_files(instance.files)

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        return run_tests(instance, sandbox, list(tests), self.test_timeout)


def runner_files(instance: Instance, patch: str) -> list[str]:
    """The changed files that affect how tests are built and run, except the gold patch's."""
    try:
        gold = changed_paths(instance.gold_patch)
    except PatchError:
        # The patch has binary changes, as some published patches do.
        gold = named_files(instance.gold_patch)
    changed = changed_paths(patch) - gold
    if instance.language == "java":
        tests = (*instance.fail_to_pass, *instance.pass_to_pass)
        new = {file.target for file in parse(patch) if file.source is None}
        stand_ins = {path for path in changed & new if java_run.stands_in(path, tests)}
        return sorted(stand_ins.union(filter(java_run.steers_tests, changed)))
    import_paths = instance.environment.import_paths
    return sorted(path for path in changed if pytest_run.steers_tests(path, import_paths))


def build_outputs(instance: Instance) -> list[str]:
    """The output folders of the instance's build tool, where nothing counts as a change."""
    return java_build_outputs(instance.files) if instance.language == "java" else []


def java_build_outputs(paths: Iterable[str]) -> list[str]:
    """The output folders of Maven and Gradle in a tree with these files."""
    modules = {posixpath.dirname(path) for path in paths if is_build_file(path)}
    return sorted(posixpath.join(module, name) for module in modules for name in BUILD_FOLDERS)
