"""What a config says of a repository of the user's own."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

from sandbox.package_names import PackageName


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
