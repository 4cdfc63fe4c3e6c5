"""Self-repair benchmarks: single-file programs that fail their tests, with or without private
tests.

`stepinto bench self-repair` writes the file, one bug per line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar

from collect.benchmarks.base import Instance, TestResults, TestStatus
from collect.benchmarks.pytest_run import run_pytest
from collect.benchmarks.running import StoredBenchmark
from collect.benchmarks.self_repair.problem import (
    BUNDLED_FILE,
    TEST_PATHS,
    Bug,
    Problem,
    hidden_files,
    lay_out,
    node_ids,
    read_bugs,
)
from collect.code.patches import diff_trees
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox

# Run the tests of a problem in a sandbox.


def run_problem_tests(
    sandbox: Sandbox, tests: Sequence[str], timeout: float, deciding: Sequence[str] = ()
) -> TestResults:
    """Run these tests of a single-file program; `timeout` is in seconds for all; `deciding` as in
    `run_pytest`.

    The tests are known to exist, so a test without a report has failed: the program can't be
    imported, or it ended the process. After a timeout this does not apply.
    """
    results = run_pytest(sandbox, tests, timeout, deciding)
    if results.timed_out:
        return results
    statuses = {
        test: TestStatus.FAILED if status is TestStatus.MISSING else status
        for test, status in results.statuses.items()
    }
    return replace(results, statuses=statuses)


@dataclass(frozen=True)
class Trial:
    results: TestResults
    public: tuple[str, ...]
    private: tuple[str, ...]

    @property
    def failing(self) -> tuple[str, ...]:
        """In test order, public ones first."""
        return tuple(test for test in (*self.public, *self.private) if not self._passed(test))

    @property
    def passing(self) -> tuple[str, ...]:
        return tuple(test for test in (*self.public, *self.private) if self._passed(test))

    def _passed(self, test: str) -> bool:
        return self.results.statuses[test] is TestStatus.PASSED


@dataclass(frozen=True)
class Tester:
    """Runs programs, each in a fresh sandbox. Thread-safe."""

    __test__ = False

    sandbox: SandboxConfig
    timeout: float
    """Seconds for one run of a problem's tests."""
    _importable: dict[str, bool] = field(default_factory=dict, compare=False)

    def try_out(self, problem: Problem, program: str, timeout: float | None = None) -> Trial:
        """Run all tests, public and private; `timeout` None: the default. Raises SandboxError."""
        files = {**lay_out(problem, program), **hidden_files(problem)}
        public, private = node_ids(problem)
        with open_sandbox(self.sandbox) as sandbox:
            sandbox.write_files({path: text.encode() for path, text in files.items()})
            results = run_problem_tests(sandbox, [*public, *private], timeout or self.timeout)
        return Trial(results, public, private)

    def find_libraries(self, names: Sequence[str]) -> None:
        """Import each library once in the sandbox, for `missing`."""
        with open_sandbox(self.sandbox) as sandbox:
            for name in sorted({*names} - self._importable.keys()):
                argv = [sandbox.python, "-c", f"import {name}"]
                self._importable[name] = sandbox.run(Command(argv)).exit_code == 0

    def missing(self, problem: Problem) -> tuple[str, ...]:
        """The problem's libraries that the sandbox lacks."""
        return tuple(name for name in problem.libraries if not self._importable[name])


@dataclass(eq=False)
class SelfRepairBenchmark(StoredBenchmark):
    """The bugs of a benchmark file; by default the bundled one."""

    name: ClassVar[str] = "self_repair"
    path: Path = BUNDLED_FILE
    test_timeout: float = 60.0

    def _read(self) -> Iterable[Instance]:
        return map(_instance, read_bugs(self.path))

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        deciding = instance.fail_to_pass if instance.is_scored else ()
        return run_problem_tests(sandbox, list(tests), self.test_timeout, deciding)


def _instance(bug: Bug) -> Instance:
    files = {path: text.encode() for path, text in bug.files.items()}
    gold_patch = ""
    if bug.gold_solution is not None:
        gold_patch = diff_trees(files, {**files, bug.solution: bug.gold_solution.encode()})
    return Instance(
        id=bug.id,
        benchmark=SelfRepairBenchmark.name,
        language="python",
        repository=f"{bug.source}/{bug.problem_id.replace('/', '_')}",
        problem_statement=bug.statement,
        fail_to_pass=bug.fail_to_pass,
        pass_to_pass=bug.pass_to_pass,
        gold_patch=gold_patch,
        files=files,
        test_paths=TEST_PATHS,
        hidden_files={path: text.encode() for path, text in bug.hidden_files.items()},
        solution=bug.solution,
        category=bug.failure.type,
    )
