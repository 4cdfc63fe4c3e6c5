"""SWE-bench and SWE-bench-Live as a benchmark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from collect.benchmarks.base import Instance, Language, TestResults
from collect.benchmarks.git_workspace import lay_out_patch, seal_history
from collect.benchmarks.swe_bench.records import Record, read_records
from collect.benchmarks.swe_bench.running import check_runnable, run_record_tests
from sandbox import ImageWorkspace, Sandbox

NAME = "swe_bench"
TEST_TIMEOUT = 1800.0
"""Seconds, as upstream."""
WORKSPACE = ImageWorkspace("/testbed", programs=("/opt/miniconda3/envs/testbed/bin",))
"""SWE-bench's images have a conda environment with that name; SWE-bench-Live's have none."""


class SweBenchBenchmark:
    """Records from a local file or from the hub; the code of each is in its image.

    A skipped PASS_TO_PASS test counts as passed, one that the log does not name as failed.
    """

    name = NAME

    def __init__(
        self,
        path: Path | None = None,
        *,
        hub_id: str | None = None,
        hub_split: str | None = None,
        test_timeout: float = TEST_TIMEOUT,
        languages: Sequence[Language] = ("python",),
        show_tests: bool = False,
    ) -> None:
        """`test_timeout` is in seconds, build included. With `show_tests` the workspace has the
        test patch, which agents otherwise don't see."""
        self.path, self.hub_id, self.hub_split = path, hub_id, hub_split
        self.test_timeout = test_timeout
        self.language: Language = "java" if languages == ("java",) else "python"
        self.show_tests = show_tests

    @cached_property
    def _records(self) -> dict[str, Record]:
        records = read_records(self.path, self.hub_id, self.hub_split)
        for record in records.values():
            check_runnable(record)
        return records

    @cached_property
    def _instances(self) -> tuple[Instance, ...]:
        return tuple(self._instance(record) for record in self._records.values())

    def instances(self) -> Sequence[Instance]:
        return self._instances

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        record = self._records[instance.id]
        seal_history(sandbox, record.base_commit)
        if self.show_tests:
            lay_out_patch(sandbox, record.test_patch, record.test_files, record.base_commit)

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        record = self._records[instance.id]
        return run_record_tests(record, sandbox, list(tests), self.test_timeout)

    def _instance(self, record: Record) -> Instance:
        return Instance(
            id=record.instance_id,
            benchmark=NAME,
            language=self.language,
            repository=record.repo,
            problem_statement=record.problem_statement,
            fail_to_pass=record.fail_to_pass,
            pass_to_pass=record.pass_to_pass,
            gold_patch=record.patch,
            test_paths=record.test_files,
            image=record.image_name,
            image_workspace=WORKSPACE,
            record=record.digest + ("+tests" if self.show_tests else ""),
            skips_count=True,
            commit=record.base_commit,
        )
