"""Bugs in repositories on disk: the lines of a `bugs.jsonl`.

`stepinto bench make` writes such a file; one written by hand needs only the fields without a
default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from collect.benchmarks.base import Language
from collect.record_lines import read_lines
from collect.strict_record import StrictRecord

BUGS_FILE = "bugs.jsonl"


class EditRecord(StrictRecord):
    """One edit that made the bug."""

    kind: str
    category: str
    path: str
    line: int
    """Of the correct file, 1-based."""
    scope: str
    """Qualified name of the function or class around it; empty at the module's level."""


class FailureRecord(StrictRecord):
    """How the first failing test fails."""

    type: str
    """The exception's class."""
    message: str
    """Bounded."""


class Difficulty(StrictRecord):
    """What makes the bug hard to find, measured on its first failing test."""

    failing_tests: int
    covering_tests: int
    """That run the faulty code, failing or not."""
    calls_to_failure: int | None = None
    """Calls of the project's functions and the test's between the last entry of the faulty one and
    the end of the test; None where the faulty code is in no function, or another thread ran it."""
    entries: int | None = None
    """How often the faulty function is entered before the failure."""
    call_depth: int | None = None
    """Calls from the test down to the faulty function, when it is entered last."""
    on_traceback: bool | None = None
    """Whether the faulty function is in the failure's traceback; None where that is not known."""


class LocalBug(StrictRecord):
    """One line: a repository, a state of it, and the tests that tell."""

    id: str = Field(min_length=1)
    repository: str = Field(min_length=1)
    """A folder: absolute, or relative to the file's own folder; or a git URL."""
    commit: str | None = None
    """Of a git URL, or of the folder of a clone: a commit, branch or tag. None: the default branch
    of a URL, and what lies in a folder."""
    project: str | None = None
    """What the train and held-out splits keep together. None: the folder's or URL's name."""
    language: Language = "python"
    problem_statement: str = Field(min_length=1)
    fail_to_pass: tuple[str, ...] = Field(min_length=1)
    pass_to_pass: tuple[str, ...] = ()
    gold_patch: str = ""
    """From the buggy tree to the correct one."""
    holds: Literal["buggy", "correct"] = "buggy"
    """Which of the two trees the folder holds; the correct one needs the gold patch."""
    test_paths: tuple[str, ...] = Field(min_length=1)
    packages: tuple[str, ...] = ()
    import_paths: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    category: str | None = None
    edits: tuple[EditRecord, ...] = ()
    failure: FailureRecord | None = None
    difficulty: Difficulty | None = None

    @model_validator(mode="after")
    def _correct_needs_patch(self) -> Self:
        if self.holds == "correct" and not self.gold_patch:
            raise ValueError("holds is correct, so gold_patch must lead to it from the buggy tree")
        return self


def read_local_bugs(path: Path) -> list[LocalBug]:
    """The lines of a file. Raises ConfigError naming the line and the field."""
    how = "`stepinto bench make` writes one, and docs/own-bugs.md tells how to write one by hand"
    return read_lines(path, LocalBug, how)
