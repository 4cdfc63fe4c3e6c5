"""Settings that select a run's bugs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from collect.benchmarks.base import Language
from collect.benchmarks.marks import SKIPPED, Mark
from collect.store.files import StrictRecord
from sandbox.base import PackageName, PythonVersion


class RepositoryConfig(StrictRecord):
    """Keys of `benchmark` for name=local if `path` is a repository rather than a `bugs.jsonl`."""

    commit: str | None = None
    """A commit, branch or tag; `path` is then a git URL or a cloned folder. None: the default
    branch of a URL, or a folder's current content."""
    test_command: str | None = None
    """How to run its tests, from its root. None: pytest on everything named like a test, or Maven
    or Gradle if there is a build file and no such test.

    `pytest PATHS OPTIONS` runs some of them, with pytest's own options, less those that break a run
    (`-n`, `--cov`); plugins are loaded if `packages` include them. Other commands and shell syntax
    are refused.
    """
    fail_to_pass: tuple[str, ...] = ()
    """The failing tests that define the bug: pytest node ids, or `package.Class#method`. Empty: all
    that fail."""
    problem_statement: str | None = None
    """The agent's problem statement, or the path of a .md, .txt or .rst file with it. None: how the
    first failing test fails."""
    packages: tuple[PackageName, ...] | None = None
    """Names of Python packages that the tests need, for the local sandbox. None: what the
    repository declares for itself and its tests."""
    more_packages: tuple[PackageName, ...] = ()
    """Packages that the tests need besides those."""
    python: PythonVersion | None = None
    """The version of CPython that runs the tests, such as `3.9`, for the local sandbox. None: the
    repository's own virtual environment if it can run the tests, else a version that the repository
    allows, StepInto's own first. `sandbox.python` names an interpreter instead."""
    import_paths: tuple[str, ...] | None = None
    """Folders that Python imports from. None: `src` if it has packages, and the root."""
    variables: Mapping[str, str] = {}
    """Environment variables of the tests."""
    max_tree_mb: int = Field(default=64, ge=1)
    """Maximum size of the tree."""

    @property
    def repository_keys(self) -> list[str]:
        """The names of these keys whose values differ from the default."""
        fields = RepositoryConfig.model_fields.items()
        return sorted(name for name, field in fields if getattr(self, name) != field.default)


class BenchmarkConfig(RepositoryConfig):
    """A benchmark, and a selection of its bugs. `commit` to `max_tree_mb` are for the user's own
    repository (`name: local`)."""

    name: Literal["bundled", "humanevalfix", "self_repair", "local", "swe_bench", "gitbug_java"]
    """The benchmark."""
    language: Literal["python", "java", "all"] = "python"
    """Language of the bugs: for `bundled`, `humanevalfix` and `local`."""
    path: str | None = None
    """Local data: for humanevalfix a .jsonl, .jsonl.gz or .parquet file; for bundled a folder with
    `bugs` and `repositories`; for self_repair the file from `stepinto bench self-repair`; for local
    a `bugs.jsonl` or its folder, as written by `stepinto bench make`, or a repository with failing
    tests: its folder, or a git URL; for swe_bench a file of its records; for gitbug_java a file or
    a folder of files. None: the hub, or the bugs that come with StepInto."""
    hub_id: str | None = None
    """Dataset on the hub, if `path` is null. None: the benchmark's own, which is
    SWE-bench-Live/SWE-bench-Live for swe_bench."""
    hub_split: str | None = None
    """Split of that dataset, only for swe_bench. None: `lite` for SWE-bench-Live, `test` for its
    other datasets."""
    repositories: str | None = None
    """For gitbug_java: folder with clones of its repositories, as `owner-name`."""
    image: str | None = None
    """For gitbug_java without clones: the images' name, with `{id}`, `{repository}` and `{commit}`
    as placeholders for the bug's."""
    image_folder: str = "/workspace"
    """For gitbug_java: the folder of the clone in such an image."""
    show_tests: bool = False
    """For swe_bench: show agents the deciding tests, which upstream hides. For debug sessions on
    failing tests, never for scores that are compared with others'."""
    split: Literal["all", "train", "held_out"] = "all"
    """Split by repository, over all bugs of one language, before `instances` and `limit` apply."""
    held_out_fraction: float = Field(default=0.25, ge=0, le=1)
    """Share of each language's repositories in the held-out split."""
    split_seed: int = 0
    """Seed for selecting the held-out repositories."""
    instances: tuple[str, ...] | None = None
    """Ids or glob patterns (`textflow__*`). None: all."""
    shuffle_seed: int | None = None
    """Seed to shuffle the bugs, so that `limit` draws from all repositories. None: the benchmark's
    own order."""
    limit: int | None = Field(default=None, ge=1)
    """Maximum number of bugs, from the start; bugs that `skip` leaves out don't count."""
    skip: tuple[Mark, ...] = SKIPPED
    """Marks of `stepinto bench verify` whose bugs collect and eval skip; []: skip none."""
    test_timeout: float | None = Field(default=None, gt=0)
    """Seconds for one run of an instance's tests, without the time for a Java build. None: 60; for
    swe_bench and gitbug_java 1800, builds included; for a local repository 1800."""

    @model_validator(mode="after")
    def _repository_is_local(self) -> Self:
        if self.repository_keys and self.name != "local":
            raise ValueError(f"{', '.join(self.repository_keys)}: for name=local alone")
        return self

    @property
    def languages(self) -> tuple[Language, ...]:
        return ("python", "java") if self.language == "all" else (self.language,)
