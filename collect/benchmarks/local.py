"""Bugs of the user's own, and the factory's: repositories in folders, and a line a bug."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from collect.benchmarks.base import Environment, Instance, Language, TestResults
from collect.benchmarks.local_records import BUGS_FILE, LocalBug, read_local_bugs
from collect.benchmarks.running import run_tests
from collect.benchmarks.trees import read_folder
from collect.errors import ConfigError
from collect.patches import PatchError, apply_patch, reverse_patch
from sandbox import Sandbox


class LocalBenchmark:
    """The bugs of one `bugs.jsonl`."""

    name = "local"

    def __init__(
        self,
        path: Path,
        test_timeout: float = 60.0,
        languages: Sequence[Language] = ("python",),
    ) -> None:
        """`path` is the file, or the folder that it lies in; `test_timeout` is in seconds, for one
        run of an instance's tests."""
        self.path = path / BUGS_FILE if path.is_dir() else path
        self.test_timeout = test_timeout
        self.languages = languages

    @cached_property
    def _instances(self) -> tuple[Instance, ...]:
        trees: dict[Path, Mapping[str, bytes]] = {}
        return tuple(
            self._instance(bug, trees)
            for bug in read_local_bugs(self.path)
            if bug.language in self.languages
        )

    def instances(self) -> Sequence[Instance]:
        return self._instances

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        sandbox.write_files(instance.files)

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        return run_tests(instance, sandbox, list(tests), self.test_timeout)

    def _instance(self, bug: LocalBug, trees: dict[Path, Mapping[str, bytes]]) -> Instance:
        folder = self.path.parent / bug.repository
        if folder not in trees:
            trees[folder] = self._tree(bug, folder)
        return Instance(
            id=bug.id,
            benchmark=self.name,
            language=bug.language,
            repository=bug.project or folder.resolve().name,
            problem_statement=bug.problem_statement,
            fail_to_pass=bug.fail_to_pass,
            pass_to_pass=bug.pass_to_pass,
            gold_patch=bug.gold_patch,
            files=self._buggy(bug, folder, trees[folder]),
            test_paths=bug.test_paths,
            environment=Environment(bug.packages, bug.import_paths, bug.variables),
            category=bug.category,
        )

    def _tree(self, bug: LocalBug, folder: Path) -> Mapping[str, bytes]:
        if not folder.is_dir():
            raise ConfigError(
                f"{self.path}: {bug.id}: repository: no such folder: {folder}; it is relative to "
                "the folder of the file"
            )
        return read_folder(folder)

    def _buggy(self, bug: LocalBug, folder: Path, tree: Mapping[str, bytes]) -> dict[str, bytes]:
        try:
            if bug.holds == "correct":
                return apply_patch(tree, reverse_patch(bug.gold_patch))
            # That it applies is better known now than when a rollout is scored.
            apply_patch(tree, bug.gold_patch)
        except PatchError as error:
            raise ConfigError(
                f"{self.path}: {bug.id}: gold_patch does not fit the {bug.holds} tree in {folder}: "
                f"{error}"
            ) from error
        return dict(tree)
