"""A project from which the factory makes bugs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collect.benchmarks.base import Environment, Language
from collect.errors import ConfigError


class ProjectRefused(ConfigError):
    """No bugs can be made from a project; the others continue."""


@dataclass(frozen=True)
class Source:
    """A project's files and metadata."""

    name: str
    version: str
    """A release's version, a repository's commit, or a hash of a folder's files."""
    origin: str
    """The exact origin, to get it again: with the sdist's hash, or the commit."""
    license: str
    """As the project names it; empty if it doesn't."""
    files: Mapping[str, bytes] = field(repr=False)
    requires: tuple[tuple[str, ...], ...] = ()
    """Sets of packages as pip requirements, the largest first: the first one that can be installed
    is used."""
    notes: tuple[str, ...] = ()
    """Requirements that were skipped."""

    @property
    def slug(self) -> str:
        return f"{self.name}-{self.version}"


@dataclass(frozen=True)
class Project:
    """A source, and how to run its tests."""

    source: Source
    environment: Environment
    test_paths: tuple[str, ...]
    code_paths: tuple[str, ...]
    """Files that may be edited."""
    notes: tuple[str, ...] = ()
    """What was left out during preparation, for the card."""
    language: Language = "python"


# Why tests failed, in a form that is equal for the same failure of the same program.


# Also matches what pytest leaves of an address when it shortens a line.
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
    """Path and line where it was raised."""


def read_reasons(reports: Sequence[Mapping[str, object]]) -> dict[str, Reason]:
    """The first failure of each failing test, from the records of `pytest_report`."""
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
        # Where the stack overflows depends on what else is on it.
        return Reason("RecursionError", "maximum recursion depth exceeded", "")
    named = _EXCEPTION.match(message)
    # pytest omits the name for a failed assertion.
    kind = named[1] if named and not message.startswith("assert ") else "AssertionError"
    return Reason(kind.rpartition(".")[2], message, f"{crash['path']}:{crash['line']}")
