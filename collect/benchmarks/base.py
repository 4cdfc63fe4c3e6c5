"""The benchmark seam: bugs, and what it takes to run and score one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Literal, Protocol

from sandbox import ImageWorkspace, Sandbox

Language = Literal["python", "java"]


class TestStatus(StrEnum):
    """How one test ended."""

    __test__ = False

    PASSED = "passed"
    FAILED = "failed"
    """Failed or raised, in the test or its fixtures."""
    SKIPPED = "skipped"
    MISSING = "missing"
    """Never reported: not collected, or the run ended before it."""
    TIMED_OUT = "timed_out"
    """Never reported by a run that was killed at its time-out."""


@dataclass(frozen=True)
class Environment:
    """What a bug's tests need beside its files. Every sandbox that is opened for it has this."""

    packages: tuple[str, ...] = ()
    """Python packages, as pip names them, for the local sandbox; an image brings its own."""
    import_paths: tuple[str, ...] = ()
    """Folders of the tree that Python imports from, beside its root."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables."""


@dataclass(frozen=True)
class Instance:
    """One bug."""

    id: str
    """Unique within the benchmark."""
    benchmark: str
    language: Language
    repository: str
    """What the train and held-out splits keep together."""
    problem_statement: str
    """The issue text that the main agent is given."""
    fail_to_pass: tuple[str, ...]
    """Tests that fail before the gold patch and pass after it.

    Python: pytest node ids. Java: `package.Class#method`, or the class alone where it is run by
    its `main` and passes by ending with exit code 0.
    """
    pass_to_pass: tuple[str, ...]
    """Tests that pass before and after."""
    gold_patch: str
    """Unified diff, `a/` and `b/` prefixes, against the workspace. Empty where no correct program
    is known."""
    files: Mapping[str, bytes] = field(repr=False, default_factory=dict)
    """The buggy tree, by relative path. Empty where the image holds it."""
    test_paths: tuple[str, ...] = ()
    """Files and folders of the tests. An agent's edits to them are dropped before scoring."""
    hidden_files: Mapping[str, bytes] = field(repr=False, default_factory=dict)
    """What only scoring lays out beside `files`: the private tests."""
    solution: str = ""
    """The one file to repair, where the bug is a program of one file and its tests; else empty."""
    image: str | None = None
    image_workspace: ImageWorkspace | None = None
    """Where the image holds the buggy tree, a git repository; None: `files` are laid out."""
    record: str = ""
    """A digest of what defines the bug's code, where `files` are not there to be read for that."""
    skips_count: bool = False
    """Whether a PASS_TO_PASS test that is skipped counts as still passing: SWE-bench's rule."""
    environment: Environment = Environment()
    category: str | None = None
    """What kind of bug, in the benchmark's own words."""
    is_scored: bool = False
    """Set by scoring for the runs that a verdict rests on: what can check the test runner is run
    along with the tests."""
    commit: str = ""
    """Of `repository`, that the buggy tree was taken from; empty where none is known. Not part of
    the hash: it says where a bug is from, and changes nothing of it."""

    @cached_property
    def hash(self) -> str:
        """16 hex digits over everything that defines the bug."""
        digest = hashlib.sha256()
        facts = [self.id, self.problem_statement, self.gold_patch, self.image]
        facts += [*self.fail_to_pass, "|", *self.pass_to_pass]
        facts += [self.record] if self.record else []
        if self.environment != Environment():
            facts.append(repr(self.environment))
        digest.update(json.dumps(facts).encode())
        for files in (self.hidden_files,) if self.record else (self.files, self.hidden_files):
            for path in sorted(files):
                digest.update(path.encode() + b"\0" + files[path] + b"\0")
        return digest.hexdigest()[:16]

    @property
    def public_tests(self) -> tuple[str, ...]:
        """The tests that an agent may see and run, failing ones first."""
        tests = (*self.fail_to_pass, *self.pass_to_pass)
        return tuple(test for test in tests if test.partition("::")[0] not in self.hidden_files)


@dataclass(frozen=True)
class TestResults:
    """What a run of the tests reported."""

    __test__ = False

    statuses: Mapping[str, TestStatus]
    """By the test's id, for every test that was asked for."""
    output: str
    """The runner's own output, bounded."""
    timed_out: bool = False
    seconds: float = 0.0
    build_failure: str | None = None
    """Why a build failed, where that was not for errors in the sources."""
    cut_short: str | None = None
    """What is told of a run whose process ended before the test runner did: the tests that had not
    run then have run on their own."""
    tampered: str | None = None
    """Why the statuses can't be trusted: what showed that the code under test interfered with the
    run. None if nothing did. A tampered run never counts as resolved."""
    doubts: Mapping[str, str] = field(default_factory=dict)
    """Where all pass, and what was run to check that does not agree: what it should have confirmed,
    and what it showed. The gold patch tells whether that is honest (`collect.scoring`)."""
    replaced: tuple[str, ...] = ()
    """Functions and classes that tests rest on and that were others after the tests; `doubts` has
    them, too."""


class Benchmark(Protocol):
    """A source of bugs."""

    @property
    def name(self) -> str: ...

    def instances(self) -> Sequence[Instance]:
        """All of them, in a fixed order. Raises ConfigError where the data is missing or broken."""

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        """Lay the buggy tree out in an empty workspace."""

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        """Run tests in a prepared workspace."""
