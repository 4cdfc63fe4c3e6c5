"""A project as the factory takes it in."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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


# Why tests failed, in a form that is equal for the same failure of the same program.


# Also what pytest leaves of one where it shortens a line.
_ADDRESS = re.compile(r"(?:0[xX]|\.\.\.x?)[0-9a-fA-F]{5,}")
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)")


@dataclass(frozen=True)
class Reason:
    """The failure of one test."""

    type: str
    """The exception's class, without its module."""
    message: str
    """As pytest shows it, without addresses."""
    place: str
    """Where it was raised: path and line."""


def read_reasons(reports: Sequence[Mapping[str, object]]) -> dict[str, Reason]:
    """The first failure of each failing test, from what `pytest_report` writes."""
    reasons: dict[str, Reason] = {}
    for report in reports:
        test = str(report["nodeid"])
        if report["outcome"] == "failed" and test not in reasons:
            reasons[test] = _reason(report.get("crash"))
    return reasons


def _reason(crash: object) -> Reason:
    if not isinstance(crash, dict):
        return Reason("Exception", "", "")
    message = _ADDRESS.sub("0x...", str(crash["message"]))
    if message.startswith("RecursionError"):
        # Where the stack ends depends on what else is on it.
        return Reason("RecursionError", "maximum recursion depth exceeded", "")
    named = _EXCEPTION.match(message)
    # pytest leaves the name out of a failed assertion.
    kind = named[1] if named and not message.startswith("assert ") else "AssertionError"
    return Reason(kind.rpartition(".")[2], message, f"{crash['path']}:{crash['line']}")
