"""Bugs in repositories on disk: the lines of a `bugs.jsonl`.

`stepinto bench make` writes such a file; one written by hand needs only the fields without a
default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from collect.benchmarks.base import Language
from collect.record_lines import read_lines
from collect.strict_record import StrictRecord
from sandbox.package_names import PackageName

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
    """A folder, relative to the file's own folder and below it; or a git URL."""
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
    """Files and folders of the tests, which are not the agent's to change."""
    solution: str = ""
    """The one Python file to repair, if the bug is a program of one file: the systems that repair
    one file, as InspectCoder, need it."""
    packages: tuple[PackageName, ...] = ()
    import_paths: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    category: str | None = None
    edits: tuple[EditRecord, ...] = ()
    failure: FailureRecord | None = None
    difficulty: Difficulty | None = None

    @field_validator("id", "problem_statement")
    @classmethod
    def _not_blank(cls, text: str, info: ValidationInfo) -> str:
        if not text.strip():
            raise ValueError("must not be blank")
        if info.field_name == "id" and not text.isprintable():
            raise ValueError("must have no line breaks and no control characters")
        return text

    @field_validator("variables")
    @classmethod
    def _can_be_set(cls, variables: Mapping[str, str]) -> Mapping[str, str]:
        for name in variables:
            if not name or "=" in name:
                raise ValueError(f"{name!r} can't be the name of a variable")
        return variables

    @model_validator(mode="after")
    def _can_be_run(self) -> Self:
        """What reaches paths, commands and their variables."""
        tests = (*self.fail_to_pass, *self.pass_to_pass)
        texts = (self.repository, self.commit or "", self.solution, *tests)
        texts += (*self.test_paths, *self.packages, *self.import_paths)
        if any("\0" in text for text in (*texts, *self.variables, *self.variables.values())):
            raise ValueError("there is a zero character (\\u0000) in a path, test or variable")
        if twice := [test for test, count in Counter(tests).items() if count > 1]:
            raise ValueError(f"{twice[0]} is twice in fail_to_pass and pass_to_pass together")
        return self

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.solution and self.language != "python":
            raise ValueError("solution names a Python program, and language is java")
        if self.holds == "correct" and not self.gold_patch:
            raise ValueError("holds is correct, so gold_patch must lead to it from the buggy tree")
        return self


def read_local_bugs(path: Path) -> list[LocalBug]:
    """The lines of a file. Raises ConfigError naming the line and the field."""
    how = (
        "benchmark.path names a bugs.jsonl, its folder, or a repository; `stepinto bench make` "
        "writes one, and docs/own-bugs.md tells how to write one by hand"
    )
    return read_lines(path, LocalBug, how)
