"""What a config says about making bugs."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from collect.benchmarks.base import Language
from sandbox.package_names import PackageName


class ProjectConfig(BaseModel):
    """One project, from one of three places. A plain text means `pypi`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pypi: str | None = None
    """A name, or a name and a version (`toolz==1.0.0`); its sdist must hold the tests."""
    git: str | None = None
    """A URL or path that `git clone` takes."""
    revision: str | None = None
    """Of `git`: a branch, tag or commit. None: the default branch."""
    folder: str | None = None
    """A folder of this machine."""
    language: Language | None = None
    """None: Java where Maven's or Gradle's build file lies at the top, else Python."""
    name: str | None = None
    """None: the name of the package, repository or folder."""
    packages: tuple[PackageName, ...] | None = None
    """What the tests need: names of packages, with version bounds. None: what the project declares
    for itself and for its tests."""
    import_paths: tuple[str, ...] | None = None
    """Folders that Python imports from. None: `src` where packages lie there, else the root."""
    tests: tuple[str, ...] | None = None
    """Files and folders of the tests. None: those that pytest's naming tells."""
    exclude: tuple[str, ...] = ()
    """Globs of files that are left as they are."""

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
        """Where it comes from, as messages name it."""
        if self.git is not None:
            return f"git:{self.git}" + (f"@{self.revision}" if self.revision else "")
        return f"pypi:{self.pypi}" if self.pypi is not None else f"folder:{self.folder}"


class FactoryConfig(BaseModel):
    """Which projects, how many bugs, and what a bug must be like."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    projects: tuple[ProjectConfig, ...] = ()
    bugs_per_project: int = Field(default=70, ge=1)
    """Bugs kept at most."""
    candidates_per_project: int = Field(default=600, ge=1)
    """Edits tried at most."""
    bugs_per_function: int = Field(default=3, ge=1)
    """The same, of one function."""
    combined_share: float = Field(default=0.1, ge=0, le=1)
    """Of the candidates: two edits at once."""
    max_tests: int = Field(default=150, ge=2)
    """Tests run for one candidate, of those that reach the edited code."""
    max_failing: int = Field(default=20, ge=1)
    """More failing tests than this, and the edit broke too much to be a bug somebody shipped."""
    max_pass_to_pass: int = Field(default=40, ge=1)
    """Passing tests that a bug lists, those in the failing tests' files first."""
    min_tests: int = Field(default=20, ge=2)
    """Tests that must pass in both runs of the unedited project's suite."""
    suite_timeout: float = Field(default=600.0, gt=0)
    """Seconds for one run of a project's whole suite."""
    test_timeout: float = Field(default=60.0, gt=0)
    """Seconds at most for the tests of one candidate."""
    max_tree_mb: int = Field(default=64, ge=1)
    """A larger project is refused."""
    index_url: str = "https://pypi.org/simple"
    """The package index that sdists come from."""
    seed: int = 0
    """Decides which edits are tried."""
    output: str | None = None
    """The folder to write. None: `factory` in the run's folder."""
