"""GitBug-Java as a benchmark: out of clones on this machine, or out of images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from collect.benchmarks.base import Instance, TestResults, TestStatus
from collect.benchmarks.git_workspace import check_out, seal_history
from collect.benchmarks.gitbug_java.clones import ClonedTree
from collect.benchmarks.gitbug_java.records import HUB_ID, Record, read_records
from collect.benchmarks.gitbug_java.running import run_project_tests
from collect.errors import ConfigError
from collect.quantities import counted, first_of
from collect.telling import tell
from collect.unified import renamed_files
from sandbox import ImageWorkspace, Sandbox

NAME = "gitbug_java"
TEST_TIMEOUT = 1800.0
"""Seconds, the build included."""
IMAGE_FOLDER = "/workspace"
MAX_MESSAGE = 500
"""Characters shown of how a test failed."""


class GitBugJavaBenchmark:
    """Records from JSON lines or from the hub."""

    name = NAME

    def __init__(
        self,
        path: Path | None = None,
        *,
        hub_id: str | None = None,
        hub_split: str | None = None,
        test_timeout: float = TEST_TIMEOUT,
        repositories: Path | None = None,
        image: str | None = None,
        image_folder: str = IMAGE_FOLDER,
    ) -> None:
        """`repositories` is a folder with clones. With `image`, a name in which `{id}`,
        `{repository}` and `{commit}` stand for the bug's, `image_folder` is a clone in it.
        `test_timeout` is in seconds, the build included."""
        self.path, self.hub_id, self.hub_split = path, hub_id, hub_split
        self.test_timeout = test_timeout
        self.repositories = repositories
        self.image, self.image_folder = image, image_folder

    @cached_property
    def _records(self) -> dict[str, Record]:
        return read_records(self.path, self.hub_id, self.hub_split)

    @cached_property
    def _instances(self) -> tuple[Instance, ...]:
        found = [self._instance(record) for record in self._records.values()]
        kept = tuple(instance for instance in found if instance.fail_to_pass)
        if len(kept) == len(found):
            return kept
        left_out = first_of([instance.id for instance in found if not instance.fail_to_pass])
        told = (
            f"{self.path or self.hub_id or HUB_ID}: {len(found) - len(kept)} of "
            f"{counted(len(found), 'record')} left out, for no test of theirs fails with the bug "
            f"and passes with the fix: {left_out}"
        )
        if not kept:
            raise ConfigError(f"{told}; check their column actions_runs")
        tell(told)
        return kept

    def instances(self) -> Sequence[Instance]:
        return self._instances

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        if instance.image_workspace is None:
            sandbox.write_files(instance.files)
            return
        record = self._records[instance.id]
        check_out(sandbox, record.previous_commit_hash, record.patches)
        seal_history(sandbox, record.previous_commit_hash)

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        tool = self._records[instance.id].build_tool
        return run_project_tests(sandbox, tool, list(tests), self.test_timeout)

    def _instance(self, record: Record) -> Instance:
        before, after = record.before, record.after
        passing = [test for test, status in after.items() if status is TestStatus.PASSED]
        kept = [test for test in passing if before.get(test) is TestStatus.PASSED]
        held = ImageWorkspace(self.image_folder) if self.image else None
        commit = record.previous_commit_hash
        tree = ClonedTree(self.repositories, record.repository, commit, record.patches)
        return Instance(
            id=record.id,
            benchmark=NAME,
            language="java",
            repository=record.repository,
            problem_statement=_problem_statement(record),
            fail_to_pass=tuple(test for test in passing if test not in kept),
            pass_to_pass=tuple(kept),
            gold_patch=record.fix,
            files={} if held else tree,
            test_paths=_test_paths(record),
            image=self._image_of(record),
            image_workspace=held,
            record=record.digest,
            category=record.build_tool,
            commit=commit,
        )

    def _image_of(self, record: Record) -> str | None:
        if self.image is None:
            return None
        names = {
            "{id}": record.id.lower(),
            "{repository}": record.repository.replace("/", "-").lower(),
            "{commit}": record.commit_hash,
        }
        image = self.image
        for name, value in names.items():
            image = image.replace(name, value)
        return image


def _test_paths(record: Record) -> tuple[str, ...]:
    """The files of the test patch, and the folders of tests in the modules of both patches."""
    files = {path for pair in renamed_files(record.test_patch) for path in pair}
    fixed = {path for pair in renamed_files(record.fix) for path in pair}
    modules = {path.partition("src/")[0] for path in files | fixed if "src/" in path}
    return tuple(sorted(files | {f"{module}src/test" for module in modules}))


def _problem_statement(record: Record) -> str:
    """The issue that the fix refers to, and how the tests fail.

    Upstream has no such text. Pull requests and the commit's message are left out: they tell the
    fix.
    """
    issues = [f"# {i.title}\n\n{i.body or ''}" for i in record.issues if not i.is_pull_request]
    failures = "\n".join(
        f"- `{test.id}`: {_message(test.results[0].type, test.results[0].message)}"
        for test in record.failing
    )
    return "\n\n".join([*map(str.strip, issues), f"These tests fail:\n\n{failures}"]) + "\n"


def _message(kind: str | None, message: str | None) -> str:
    text = ": ".join(part for part in (kind, message) if part) or "failed"
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]} [cut]"
