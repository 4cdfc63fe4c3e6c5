"""HumanEvalFix: the bugs of bigcode/humanevalpack (OctoPack, arXiv:2308.07124, section 4).

Each task becomes two files, the program and its test; see `humanevalfix_python` and
`humanevalfix_java`. A problem in all its languages counts as one repository, so that splits keep it
together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from collect.benchmarks import humanevalfix_java, humanevalfix_python
from collect.benchmarks.base import Instance, Language, TestResults
from collect.benchmarks.humanevalfix_python import HUB_ID, Row, file_rows, hub_rows
from collect.benchmarks.running import run_tests
from collect.code.patches import diff_trees
from sandbox import Sandbox
from sandbox.text import source_lines


class HumanEvalFixBenchmark:
    """HumanEvalFix from a .jsonl, .jsonl.gz or .parquet file, or from the hub."""

    name = "humanevalfix"

    def __init__(
        self,
        path: Path | None = None,
        hub_id: str = HUB_ID,
        test_timeout: float = 60.0,
        languages: Sequence[Language] = ("python",),
    ) -> None:
        """`test_timeout` is in seconds. Some of the buggy programs never end."""
        self.path = path
        self.hub_id = hub_id
        self.test_timeout = test_timeout
        self.languages = languages

    @cached_property
    def _instances(self) -> tuple[Instance, ...]:
        if self.path is None:
            rows = hub_rows(self.hub_id, self.languages)
        else:
            rows = file_rows(self.path, self.languages)
        return tuple(_instance(where, row) for where, row in rows)

    def instances(self) -> Sequence[Instance]:
        return self._instances

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        sandbox.write_files(instance.files)

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        return run_tests(instance, sandbox, list(tests), self.test_timeout)


def _instance(where: str, task: Row) -> Instance:
    layout = humanevalfix_java if task.language == "java" else humanevalfix_python
    test_file = layout.make_test_file(where, task)
    buggy = {
        layout.SOLUTION: (task.prompt + task.buggy_solution).encode(),
        layout.TEST_FILE: test_file,
    }
    correct = {**buggy, layout.SOLUTION: (task.prompt + task.canonical_solution).encode()}
    return Instance(
        id=task.task_id,
        benchmark=HumanEvalFixBenchmark.name,
        language="java" if task.language == "java" else "python",
        repository=f"{HumanEvalFixBenchmark.name}/{task.number}",
        problem_statement=_problem_statement(
            task, layout.SOLUTION, layout.TEST_FILE, layout.TEST_COMMAND
        ),
        fail_to_pass=(layout.TEST,),
        pass_to_pass=(),
        gold_patch=diff_trees(buggy, correct),
        files=buggy,
        test_paths=(layout.TEST_FILE,),
        solution=layout.SOLUTION if task.language == "python" else "",
        category=task.bug_type,
    )


def _problem_statement(task: Row, solution: str, test_file: str, command: str) -> str:
    specification = "\n".join("    " + line for line in source_lines(task.docstring))
    return (
        f"`{task.entry_point}` in `{solution}` does not do what it should\n\n"
        f"`{command}` fails. This is what `{task.entry_point}` is meant to do:"
        f"\n\n{specification}\n\n"
        f"The tests in `{test_file}` are right; the mistake is in `{solution}`.\n"
    )
