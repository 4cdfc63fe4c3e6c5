"""Bugs of the user's own, and the factory's: repositories, and a line a bug."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from collect.benchmarks.base import Environment, Instance, Language, TestResults
from collect.benchmarks.local_records import BUGS_FILE, LocalBug, read_local_bugs
from collect.benchmarks.running import run_tests
from collect.benchmarks.trees import read_folder
from collect.errors import ConfigError
from collect.git_clones import Checkout, GitFailed, is_git_url, read_commit, repository_name
from collect.patches import PatchError, apply_patch, reverse_patch
from sandbox import Sandbox

Trees = dict[tuple[str, str | None], Checkout]
"""What was read already, by repository and commit."""


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
        trees: Trees = {}
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

    def _instance(self, bug: LocalBug, trees: Trees) -> Instance:
        key = (bug.repository, bug.commit)
        if key not in trees:
            trees[key] = self._tree(bug)
        tree = trees[key]
        return Instance(
            id=bug.id,
            benchmark=self.name,
            language=bug.language,
            repository=bug.project or self._name(bug),
            problem_statement=bug.problem_statement,
            fail_to_pass=bug.fail_to_pass,
            pass_to_pass=bug.pass_to_pass,
            gold_patch=bug.gold_patch,
            files=self._buggy(bug, tree.files),
            test_paths=bug.test_paths,
            environment=Environment(bug.packages, bug.import_paths, bug.variables),
            category=bug.category,
            commit=tree.commit,
        )

    def _name(self, bug: LocalBug) -> str:
        if is_git_url(bug.repository):
            return repository_name(bug.repository)
        return self._folder(bug).resolve().name

    def _folder(self, bug: LocalBug) -> Path:
        return self.path.parent / bug.repository

    def _tree(self, bug: LocalBug) -> Checkout:
        """The files that the line names. Raises ConfigError."""
        if is_git_url(bug.repository):
            return self._checked_out(bug, bug.repository)
        folder = self._folder(bug)
        if not folder.is_dir():
            raise ConfigError(
                f"{self.path}: {bug.id}: repository: no such folder: {folder}; it is relative to "
                "the folder of the file"
            )
        if bug.commit is not None:
            return self._checked_out(bug, str(folder))
        return Checkout("", read_folder(folder))

    def _checked_out(self, bug: LocalBug, place: str) -> Checkout:
        try:
            return read_commit(place, bug.commit)
        except GitFailed as error:
            raise ConfigError(f"{self.path}: {bug.id}: repository: {error}") from error

    def _buggy(self, bug: LocalBug, tree: Mapping[str, bytes]) -> dict[str, bytes]:
        try:
            if bug.holds == "correct":
                return apply_patch(tree, reverse_patch(bug.gold_patch))
            # That it applies is better known now than when a rollout is scored.
            apply_patch(tree, bug.gold_patch)
        except PatchError as error:
            raise ConfigError(
                f"{self.path}: {bug.id}: gold_patch does not fit the {bug.holds} tree of "
                f"{bug.repository}: {error}"
            ) from error
        return dict(tree)
