"""The user's own bugs and those of the factory: repositories, and one line per bug.

`stepinto bench make` writes such a file; one written by hand needs only the fields without default.
"""

from __future__ import annotations

import logging
import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import ClassVar, Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import Field, model_validator

from collect.benchmarks.base import Environment, Instance, Language
from collect.benchmarks.git_clones import (
    Checkout,
    is_git_url,
    read_commit,
    read_folder_commit,
    repository_name,
)
from collect.benchmarks.projects.project import is_below
from collect.benchmarks.running import StoredBenchmark
from collect.benchmarks.workspace import folder_below, read_folder
from collect.code.patches import PatchError, apply_patch, changed_paths, reverse_patch
from collect.errors import ConfigError, the_nearest
from collect.quantities import counted, first_of
from collect.store.files import StrictRecord, read_lines, refuse_wrong
from sandbox.base import PackageName, PythonVersion
from sandbox.languages.python.metadata import with_version_module

logger = logging.getLogger(__name__)

BUGS_FILE = "bugs.jsonl"


class EditRecord(StrictRecord):
    """One edit that made the bug."""

    kind: str
    category: str
    path: str
    line: int
    """Line in the correct file, 1-based."""
    scope: str
    """Qualified name of the enclosing function or class; empty at module level."""


class FailureRecord(StrictRecord):
    """How the first failing test fails."""

    type: str
    message: str
    """Shortened."""


class Difficulty(StrictRecord):
    """How hard the bug is to find, measured on its first failing test."""

    failing_tests: int
    covering_tests: int
    """Number of tests that run the faulty code, failing or not."""
    reaching_tests: int | None = None
    """How many of these were run."""
    on_traceback: bool | None = None
    """Whether the faulty function is in the failure's traceback; None if unknown."""
    entries: int | None = None
    """How often the faulty function is entered before the failure."""
    right_entries: int | None = None
    """How many of these end as in the correct program before the first that doesn't: with the same
    result and the same arguments. None if none differs."""
    calls_to_failure: int | None = None
    """Calls of the project's and the test's functions from the end of that entry to the end of the
    test; from the beginning of the last entry, if `right_entries` is None. None if the faulty code
    is in no function, or another thread ran it."""
    functions: int | None = None
    """Number of the project's functions that the test runs, in the correct program; Python
    only."""
    call_depth: int | None = None
    """Call depth from the test to the faulty function at that entry."""
    call_distance: int | None = None
    """Calls between the failing and the faulty function: up to their common caller and down again.
    None if `right_entries` is None."""
    file_distance: int | None = None
    """Number of other files, without those of tests, that these calls lead through."""
    reading_rank: int | None = None
    """Rank of the faulty function for a reader who does not run the program: see
    `collect.synthesis.difficulty`. None if the faulty code is in no function."""
    interacting: bool | None = None
    """Of two edits: whether the first failing test fails in another way than with each alone."""


class LocalBug(StrictRecord):
    """One line: a repository, a revision of it, and the tests that show the bug."""

    id: str = Field(min_length=1)
    repository: str = Field(min_length=1)
    """A folder, relative to the file's own folder and inside it; or a git URL."""
    commit: str | None = None
    """A commit, branch or tag of the git URL, or of the cloned folder. None: the default branch of
    a URL, or a folder's current content."""
    project: str | None = None
    """The unit that stays on one side of the train and held-out splits. None: the folder's or URL's
    name."""
    language: Language = "python"
    problem_statement: str = Field(min_length=1)
    fail_to_pass: tuple[str, ...] = Field(min_length=1)
    pass_to_pass: tuple[str, ...] = ()
    gold_patch: str = ""
    """Diff from the buggy tree to the correct one."""
    holds: Literal["buggy", "correct"] = "buggy"
    """Which of the two trees the folder holds; a correct tree needs the gold patch."""
    test_paths: tuple[str, ...] = Field(min_length=1)
    """Files and folders of the tests, which the agent must not change."""
    solution: str = ""
    """The Python file to repair, if the bug is a program of one file; needed by systems that repair
    one file, such as InspectCoder."""
    python: PythonVersion | None = None
    """The version of CPython that runs the tests, such as `3.9`. None: the one that runs
    StepInto."""
    packages: tuple[PackageName, ...] = ()
    import_paths: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    version: str | None = None
    """The project's version, for one that takes it from git's tags."""
    category: str | None = None
    edits: tuple[EditRecord, ...] = ()
    failure: FailureRecord | None = None
    difficulty: Difficulty | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.id.strip() or not self.id.isprintable():
            raise ValueError("id must not be blank, nor have line breaks or control characters")
        if not self.problem_statement.strip():
            raise ValueError("problem_statement must not be blank")
        for name in self.variables:
            if not name or "=" in name:
                raise ValueError(f"variables: {name!r} can't be the name of a variable")
        counts = Counter((*self.fail_to_pass, *self.pass_to_pass))
        if twice := [test for test, count in counts.items() if count > 1]:
            raise ValueError(f"{twice[0]} is twice in fail_to_pass and pass_to_pass together")
        if self.solution and self.language != "python":
            raise ValueError("solution names a Python program, and language is java")
        if self.holds == "correct" and not self.gold_patch:
            raise ValueError("holds is correct, so gold_patch must lead to it from the buggy tree")
        return self


def read_local_bugs(path: Path) -> list[LocalBug]:
    """The lines of a file. Raises ConfigError, which names the line and the field."""
    how = (
        "benchmark.path names a bugs.jsonl, its folder, or a repository; `stepinto bench make` "
        "writes one, and docs/own-bugs.md tells how to write one by hand"
    )
    return read_lines(path, LocalBug, how)


MAX_TREE_MB = 1024
"""Limit for a repository."""
FILE_URL = "file://"


@dataclass(eq=False)
class LocalBenchmark(StoredBenchmark):
    """The bugs of one `bugs.jsonl`."""

    name: ClassVar[str] = "local"
    path: Path
    """The file or its folder."""
    test_timeout: float = 60.0
    languages: Sequence[Language] = ("python",)

    def __post_init__(self) -> None:
        if self.path.is_dir():
            self.path = self.path / BUGS_FILE

    def _read(self) -> Sequence[Instance]:
        """Build all instances, so that the errors of several bugs are reported together."""
        bugs = read_local_bugs(self.path)
        kept = [bug for bug in bugs if bug.language in self.languages]
        if len(kept) < len(bugs):
            count = counted(len(bugs), "bug")
            other = next(bug.language for bug in bugs if bug.language not in self.languages)
            if not kept:
                raise ConfigError(
                    f"{self.path}: the language of all {count} is {other}: set "
                    f"benchmark.language={other}"
                )
            logger.warning(
                f"{self.path}: {len(bugs) - len(kept)} of {count} left out, whose language is "
                f"{other}; benchmark.language=all takes them too"
            )
        tree = cache(self._tree)
        found: list[Instance] = []
        wrong: list[str] = []
        for bug in kept:
            try:
                found.append(self._instance(bug, tree(bug.repository, bug.commit)))
            except ConfigError as error:
                wrong.append(f"{bug.id}: {error}")
        told = f"{len(wrong)} of {counted(len(kept), 'bug')} can't be used, fix or remove them"
        refuse_wrong(self.path, wrong, told)
        return found

    def _tree(self, repository: str, commit: str | None) -> Checkout:
        try:
            if is_git_url(repository) and not repository.startswith(FILE_URL):
                return read_commit(repository, commit, MAX_TREE_MB)
            if repository.startswith(FILE_URL):
                repository, commit = unquote(urlsplit(repository).path), commit or "HEAD"
            folder = folder_below(self.path.parent, repository)
            if commit is None:
                return Checkout("", read_folder(folder, max_mb=MAX_TREE_MB))
            if not any((folder / name).exists() for name in (".git", "HEAD")):
                raise ConfigError(
                    f"{folder} is not the top folder of a git repository, so there is no commit "
                    f"{commit}; leave commit out to take what lies there"
                )
            return read_folder_commit(folder, commit, MAX_TREE_MB)
        except ConfigError as error:
            raise ConfigError(f"repository: {error}") from error

    def _instance(self, bug: LocalBug, tree: Checkout) -> Instance:
        version = bug.version or tree.tagged
        files = dict(with_version_module(tree.files, version))
        try:
            if bug.gold_patch and not changed_paths(bug.gold_patch):
                raise PatchError("it is no unified diff of text files in UTF-8 (`--- a/FILE`)")
            if bug.holds == "correct":
                files = apply_patch(files, reverse_patch(bug.gold_patch))
            else:
                # Fail here, before any rollout, if the patch does not apply.
                apply_patch(files, bug.gold_patch)
        except PatchError as error:
            raise ConfigError(
                f"gold_patch does not fit the {bug.holds} tree of {bug.repository}: {error}"
            ) from error
        _check_paths(bug, files)
        name = repository_name(bug.repository)
        if not is_git_url(bug.repository):
            name = folder_below(self.path.parent, bug.repository).name
        return Instance(
            id=bug.id,
            benchmark=self.name,
            language=bug.language,
            repository=bug.project or name,
            problem_statement=bug.problem_statement,
            fail_to_pass=bug.fail_to_pass,
            pass_to_pass=bug.pass_to_pass,
            gold_patch=bug.gold_patch,
            files=files,
            test_paths=tuple(map(posixpath.normpath, bug.test_paths)),
            solution=bug.solution,
            environment=Environment(
                packages=bug.packages,
                import_paths=bug.import_paths,
                variables=bug.variables,
                python=bug.python,
                interpreter=f"CPython {bug.python}" if bug.python else "",
                version=version,
            ),
            category=bug.category,
            commit=tree.commit,
        )


def _check_paths(bug: LocalBug, files: Mapping[str, bytes]) -> None:
    folders = {str(folder) for path in files for folder in PurePosixPath(path).parents} - {"."}
    test_paths = [*map(posixpath.normpath, bug.test_paths)]
    for path in test_paths:
        if path not in folders and path not in files:
            raise ConfigError(
                f"test_paths: {path} is no file or folder of {bug.repository}"
                f"{the_nearest(path, [*files, *folders])}; paths are relative to the repository, "
                "and parted by /"
            )
    for path in map(posixpath.normpath, bug.import_paths):
        if path != "." and path not in folders:
            raise ConfigError(
                f"import_paths: {path} is no folder of {bug.repository}{the_nearest(path, folders)}"
            )
    for test in (*bug.fail_to_pass, *bug.pass_to_pass):
        path = test.partition("::")[0]
        if bug.language == "python" and path not in files:
            raise ConfigError(
                f"{path}, of the test {test}, is no file of {bug.repository}"
                f"{the_nearest(path, files)}; tests are pytest's ids, FILE::TEST"
            )
    if not bug.solution:
        return
    if bug.solution not in files or is_below(bug.solution, test_paths):
        raise ConfigError(
            f"solution: {bug.solution} is no file of {bug.repository} outside of test_paths"
            f"{the_nearest(bug.solution, files)}"
        )
    if others := sorted(changed_paths(bug.gold_patch) - {bug.solution}):
        raise ConfigError(
            f"solution: {bug.solution} is all that may change, and gold_patch changes "
            f"{first_of(others)} too; leave solution out"
        )
