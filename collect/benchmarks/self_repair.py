"""Self-repair benchmarks: programs of one file that fail their tests, with private tests or none.

The file is what `stepinto bench self-repair` writes, a bug a line (`collect.self_repair.records`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from collect.benchmarks.base import Instance, TestResults
from collect.patches import diff_trees
from collect.self_repair.layout import TEST_PATHS
from collect.self_repair.records import BUNDLED_FILE, Bug, read_bugs
from collect.self_repair.testing import run_problem_tests
from sandbox import Sandbox


class SelfRepairBenchmark:
    """The bugs of a benchmark file; without one, those that come with StepInto."""

    name = "self_repair"

    def __init__(self, path: Path = BUNDLED_FILE, test_timeout: float = 60.0) -> None:
        """`test_timeout` is in seconds, for one run of an instance's tests."""
        self.path = path
        self.test_timeout = test_timeout

    @cached_property
    def _instances(self) -> tuple[Instance, ...]:
        return tuple(_instance(bug) for bug in read_bugs(self.path))

    def instances(self) -> Sequence[Instance]:
        return self._instances

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        sandbox.write_files(instance.files)

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
