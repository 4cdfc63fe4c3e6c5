"""Which bugs a run is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from collect.benchmarks.base import Language
from collect.benchmarks.marks import SKIPPED, Mark
from sandbox.package_names import PackageName

# What a config says of a repository of the user's own.


class RepositoryConfig(BaseModel):
    """Keys of `benchmark` for name=local, where `path` is a repository and not a `bugs.jsonl`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    commit: str | None = None
    """A commit, branch or tag; `path` is then a git URL or a clone's folder. None: the default
    branch of a URL, and what lies in a folder."""
    test_command: str | None = None
    """How its tests are run, from its root. None: pytest on what is named like a test, or Maven or
    Gradle where there is a build file and no such test.

    `pytest PATHS OPTIONS` runs some of them, with options of pytest itself: plugins are loaded
    where `packages` have them. `python FILE ARGUMENTS` and `python -m MODULE ARGUMENTS` are judged
    as one test: it passes if the script comes to its end with exit status 0. Of Maven and Gradle
    every test is run, by `mvn test` and `gradle test`. Other commands are refused, for no debug
    session can be started on them, and what only a shell understands."""
    fail_to_pass: tuple[str, ...] = ()
    """The failing tests that make the bug: pytest node ids, or `package.Class#method`. Empty: all
    that fail."""
    problem_statement: str | None = None
    """What the agent is told, or the path of a .md, .txt or .rst file of it. None: how the first
    failing test fails."""
    packages: tuple[PackageName, ...] | None = None
    """Python packages that the tests need, by name, for the local sandbox. None: what
    the repository declares for itself and for its tests."""
    import_paths: tuple[str, ...] | None = None
    """Folders that Python imports from. None: `src` where packages lie there, and the root."""
    variables: Mapping[str, str] = {}
    """Environment variables of the tests."""
    max_tree_mb: int = Field(default=64, ge=1)
    """A larger tree is refused."""

    @property
    def repository_keys(self) -> list[str]:
        """Those of these keys that have another value than their default."""
        fields = RepositoryConfig.model_fields.items()
        return sorted(name for name, field in fields if getattr(self, name) != field.default)


class BenchmarkConfig(RepositoryConfig):
    """A benchmark, and which of its bugs. `commit` to `max_tree_mb` are for a repository of your
    own (`name: local`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Literal["bundled", "humanevalfix", "self_repair", "local", "swe_bench", "gitbug_java"]
    """Which benchmark."""
    language: Literal["python", "java", "all"] = "python"
    """Of the bugs: for `bundled`, `humanevalfix` and `local`."""
    path: str | None = None
    """Local data: for humanevalfix a .jsonl, .jsonl.gz or .parquet file; for bundled a folder
    with `bugs` and `repositories`; for self_repair what `stepinto bench self-repair` wrote; for
    local a `bugs.jsonl`, or the folder of one, as `stepinto bench make` writes it, or a repository
    whose tests fail: its folder, or a git URL; for swe_bench a file of its records; for gitbug_java
    one, or a folder of them. None: the hub, and the bugs that come with StepInto."""
    hub_id: str | None = None
    """Dataset on the hub, where `path` is null. None: the benchmark's own, which is
    SWE-bench-Live/SWE-bench-Live for swe_bench."""
    hub_split: str | None = None
    """Split of that dataset. None: the benchmark's own, which is `lite` for SWE-bench-Live and
    `test` for the other datasets of swe_bench. For swe_bench alone."""
    repositories: str | None = None
    """For gitbug_java: folder with clones of its repositories, as `owner-name`."""
    image: str | None = None
    """For gitbug_java, where no clones are given: the images' name, in which `{id}`, `{repository}`
    and `{commit}` stand for the bug's."""
    image_folder: str = "/workspace"
    """For gitbug_java: where in such an image the clone lies."""
    show_tests: bool = False
    """For swe_bench: give the agents the tests that decide, which upstream hides from them. For
    debug sessions on failing tests, never for scores that are compared with others'."""
    split: Literal["all", "train", "held_out"] = "all"
    """By repository, over all bugs of one language: whatever `instances` and `limit` say."""
    held_out_fraction: float = Field(default=0.25, ge=0, le=1)
    """Share of each language's repositories in the held-out split."""
    split_seed: int = 0
    """Which repositories are held out."""
    instances: tuple[str, ...] | None = None
    """Ids, or globs over them (`textflow__*`). None: all."""
    shuffle_seed: int | None = None
    """Shuffles the bugs, in the same way for the same seed, so that `limit` draws from all
    repositories. None: the benchmark's own order."""
    limit: int | None = Field(default=None, ge=1)
    """At most so many, the first ones; those that `skip` leaves out don't count."""
    skip: tuple[Mark, ...] = SKIPPED
    """Marks of `stepinto bench verify` whose bugs collect and eval leave out; []: none."""
    test_timeout: float | None = Field(default=None, gt=0)
    """Seconds for one run of an instance's tests, without the time that a Java build takes. None:
    60; for swe_bench and gitbug_java 1800, with the build included, and for a repository of local
    1800."""

    @model_validator(mode="after")
    def _repository_is_local(self) -> Self:
        if self.repository_keys and self.name != "local":
            raise ValueError(f"{', '.join(self.repository_keys)}: for name=local alone")
        return self

    @property
    def languages(self) -> tuple[Language, ...]:
        return ("python", "java") if self.language == "all" else (self.language,)
