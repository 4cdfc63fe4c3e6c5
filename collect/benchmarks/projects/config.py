"""Settings for making bugs."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from collect.benchmarks.base import Language
from collect.store.files import StrictRecord
from sandbox.base import PackageName, PythonVersion


class ProjectConfig(StrictRecord):
    """A project from one of three origins. A plain string means `pypi`."""

    pypi: str | None = None
    """A name, or a name and a version (`toolz==1.0.0`); its sdist must hold the tests."""
    git: str | None = None
    """A URL or path that `git clone` takes."""
    revision: str | None = None
    """A branch, tag or commit of `git`. None: the default branch."""
    folder: str | None = None
    """A local folder."""
    language: Language | None = None
    """None: Java if there is a Maven or Gradle build file at the top level, else Python."""
    name: str | None = None
    """None: the name of the package, repository or folder."""
    packages: tuple[PackageName, ...] | None = None
    """Packages that the tests need, by name, with version bounds. None: what the project declares
    for itself and its tests."""
    more_packages: tuple[PackageName, ...] = ()
    """Packages that the tests need besides those."""
    python: PythonVersion | None = None
    """The version of CPython that runs its tests, such as `3.9`. None: StepInto's own if the
    project allows it, else the nearest one on this machine that it allows."""
    import_paths: tuple[str, ...] | None = None
    """Folders that Python imports from. None: `src` if it has packages, else the root."""
    tests: tuple[str, ...] | None = None
    """Files and folders of the tests. None: those that match pytest's naming."""
    exclude: tuple[str, ...] = ()
    """Glob patterns of files that must not be edited."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        return {"pypi": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if sum(place is not None for place in (self.pypi, self.git, self.folder)) != 1:
            raise ValueError("a project has exactly one of pypi, git and folder")
        if self.revision is not None and self.git is None:
            raise ValueError("revision is for git")
        return self

    @property
    def place(self) -> str:
        """The project's origin, for messages."""
        if self.git is not None:
            return f"git:{self.git}" + (f"@{self.revision}" if self.revision else "")
        return f"pypi:{self.pypi}" if self.pypi is not None else f"folder:{self.folder}"


class HardFeature(StrEnum):
    """What can make a bug hard to find by reading."""

    OFF_TRACEBACK = "off_traceback"
    """The faulty function is not in the failure's traceback."""
    DISTANT = "distant"
    """Many calls between the failing and the faulty function."""
    OTHER_FILE = "other_file"
    """These calls lead through other files than the faulty one."""
    REPEATED = "repeated"
    """The faulty function does right many times before it goes wrong."""
    EARLY = "early"
    """The value goes wrong long before the failure."""
    STATE = "state"
    """State that is shared, stale or not reset: an edit of the category `state`."""
    INTERACTING = "interacting"
    """Two edits, which fail together in another way than each alone."""
    NATURAL = "natural"
    """The edited code reads like correct code: something is left out, say. If it is required, only
    such edits are tried."""
    WIDE = "wide"
    """The failing test runs many functions of the project."""
    RARE = "rare"
    """Few of the tests that reach the edited code fail."""
    SILENT = "silent"
    """No error is raised: a result is wrong."""
    UNREADABLE = "unreadable"
    """A reader of the source, the failing test and its traceback looks elsewhere first."""


class DifficultyConfig(StrictRecord):
    """The features that bugs must have, and from which measurement on a bug has each."""

    required: tuple[HardFeature, ...] = ()
    """Features that every kept bug has. One that can't be measured is missing."""
    at_least: int = Field(default=0, ge=0)
    """Minimum number of features, these or others."""
    calls: int = Field(default=3, ge=1)
    """`distant`: minimum `call_distance`."""
    right_entries: int = Field(default=3, ge=1)
    """`repeated`: minimum number of entries that end right before the first wrong one."""
    calls_to_failure: int = Field(default=30, ge=1)
    """`early`: minimum number of calls after the value went wrong."""
    functions: int = Field(default=30, ge=1)
    """`wide`: minimum number of functions that the failing test runs."""
    passing_per_failing: int = Field(default=4, ge=1)
    """`rare`: minimum number of passing tests that reach the edited code, for each failing one."""
    top_k: int = Field(default=3, ge=1)
    """`unreadable`: the faulty function is not among the reader's first `top_k`."""


class FactoryConfig(StrictRecord):
    """Which projects, how many bugs, and the requirements for a bug."""

    projects: tuple[ProjectConfig, ...] = ()
    bugs_per_project: int = Field(default=70, ge=1)
    """Maximum number of bugs kept per project."""
    candidates_per_project: int = Field(default=600, ge=1)
    """Maximum number of edits tried per project."""
    bugs_per_function: int = Field(default=3, ge=1)
    """Maximum number of bugs kept per function."""
    combined_share: float = Field(default=0.1, ge=0, le=1)
    """Share of candidates with two edits at once."""
    difficulty: DifficultyConfig = DifficultyConfig()
    """How hard to find the kept bugs are. The default keeps all."""
    issue_names_test: bool = False
    """Whether an issue's text may name a failing test. A user of the library knows none."""
    max_tests: int = Field(default=150, ge=2)
    """Maximum number of tests run for one candidate, from those that reach the edited code."""
    max_failing: int = Field(default=20, ge=1)
    """Maximum number of failing tests; an edit that breaks more would not have been shipped."""
    max_pass_to_pass: int = Field(default=40, ge=1)
    """Maximum number of passing tests that a bug lists, those in the failing tests' files first."""
    min_tests: int = Field(default=20, ge=2)
    """Minimum number of tests that pass in both runs of the unedited project's suite."""
    suite_timeout: float = Field(default=600.0, gt=0)
    """Seconds for one run of a project's whole suite."""
    test_timeout: float = Field(default=60.0, gt=0)
    """Maximum seconds for the tests of one candidate."""
    max_tree_mb: int = Field(default=64, ge=1)
    """Maximum size of a project."""
    index_url: str = "https://pypi.org/simple"
    """The package index that sdists come from."""
    seed: int = 0
    """Seed for selecting edits."""
    output: str | None = None
    """The folder to write. None: `factory` in the run's folder."""
