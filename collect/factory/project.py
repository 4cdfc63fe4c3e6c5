"""A project as the factory takes it in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from collect.benchmarks.base import Environment, Language
from collect.errors import ConfigError


class ProjectRefused(ConfigError):
    """A project that no bugs can be made of; the others go on."""


@dataclass(frozen=True)
class Source:
    """A project's files, and what is told with them."""

    name: str
    version: str
    """Of a release; the commit of a repository; a hash of the files of a folder."""
    origin: str
    """Where exactly it came from, to get it again: with the sdist's hash, or the commit."""
    license: str
    """As the project names it; empty where it doesn't."""
    files: Mapping[str, bytes] = field(repr=False)
    requires: tuple[tuple[str, ...], ...] = ()
    """Sets of packages, as pip names them, the fullest first: the first that can be had is
    taken."""
    notes: tuple[str, ...] = ()
    """What it asks for beside these, and is not taken."""

    @property
    def slug(self) -> str:
        """A name for a folder."""
        return f"{self.name}-{self.version}"


@dataclass(frozen=True)
class Project:
    """A source, and how its tests are run."""

    source: Source
    environment: Environment
    test_paths: tuple[str, ...]
    code_paths: tuple[str, ...]
    """Files that may be edited."""
    notes: tuple[str, ...] = ()
    """What was left out on the way, for the card."""
    language: Language = "python"
