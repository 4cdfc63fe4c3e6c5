"""The benchmark interface: bugs, and how to run and score them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Literal, Protocol, runtime_checkable

from sandbox import ImageWorkspace, Sandbox

Language = Literal["python", "java"]


class TestStatus(StrEnum):
    __test__ = False

    PASSED = "passed"
    FAILED = "failed"
    """Failed or raised, in the test or its fixtures; or its file can't be imported or compiled."""
    SKIPPED = "skipped"
    MISSING = "missing"
    """No report: its file has no such test, or the run ended before it."""
    TIMED_OUT = "timed_out"
    """No report because the run was killed at its timeout."""


@dataclass(frozen=True)
class Environment:
    """What a bug's tests need besides its files. Every sandbox for the bug has it."""

    packages: tuple[str, ...] = ()
    """Python packages as pip requirements, for the local sandbox; an image brings its own."""
    import_paths: tuple[str, ...] = ()
    """Folders of the tree that Python imports from, besides its root."""
    variables: Mapping[str, str] = field(default_factory=dict)
    python: str | None = field(default=None, repr=False)
    """The version of CPython, such as `3.9`, for the local sandbox. None: StepInto's own."""
    folder: str | None = field(default=None, repr=False, compare=False)
    """The user's own virtual environment on this machine, which then stands in for `packages` that
    the project declares. Only ever found by a look at the user's folder and variables, never read
    from a file."""
    interpreter: str = field(default="", repr=False, compare=False)
    """In words, which interpreter runs the tests, and why."""
    version: str | None = field(default=None, repr=False)
    """The project's version, if the tags of its repository tell it."""
    missing: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Packages that the project declares and that could not be installed, by name, and why."""
    notes: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """What else an agent should know of the environment."""

    def deficiencies(self) -> tuple[str, ...]:
        """What an agent should know of it, in sentences: what is missing, and the notes."""
        missing = (f"{name} is not installed: {reason}" for name, reason in self.missing.items())
        return (*missing, *self.notes)

    def runs(self) -> tuple[str, ...]:
        """The sentence that says what runs the tests, if that is known."""
        return (f"The tests run in {self.interpreter}.",) if self.interpreter else ()


@dataclass(frozen=True)
class Instance:
    """One bug."""

    id: str
    """Unique within the benchmark."""
    benchmark: str
    language: Language
    repository: str
    """The unit that stays on one side of the train and held-out splits."""
    problem_statement: str
    """The issue text given to the main agent."""
    fail_to_pass: tuple[str, ...]
    """Tests that fail before the gold patch and pass after it.

    Python: pytest node ids. Java: `package.Class#method`, or only the class if its `main` is run,
    which passes with exit code 0.
    """
    pass_to_pass: tuple[str, ...]
    """Tests that pass before and after."""
    gold_patch: str
    """Unified diff against the workspace, with `a/` and `b/` prefixes. Empty if no correct program
    is known."""
    files: Mapping[str, bytes] = field(repr=False, default_factory=dict)
    """The buggy tree, by relative path. Empty if the image holds it."""
    test_paths: tuple[str, ...] = ()
    """Files and folders of the tests. An agent's edits to them are dropped before scoring."""
    hidden_files: Mapping[str, bytes] = field(repr=False, default_factory=dict)
    """Files that are added only for scoring: the private tests."""
    solution: str = ""
    """The file to repair, if the bug is a program of one file and its tests; else empty."""
    image: str | None = None
    image_workspace: ImageWorkspace | None = None
    """The git repository of the image, if it holds the buggy tree; None: `files` are used."""
    record: str = ""
    """A digest of what defines the bug's code, if that is not in `files`."""
    skips_count: bool = False
    """Whether a skipped PASS_TO_PASS test counts as passing: SWE-bench's rule."""
    environment: Environment = Environment()
    category: str | None = None
    """The kind of bug, in the benchmark's own terms."""
    is_scored: bool = False
    """Set by scoring for runs that decide a verdict: the checks of the test runner then run along
    with the tests."""
    commit: str = ""
    """The commit of `repository` with the buggy tree; empty if unknown. Not part of the hash: it
    only documents the origin."""
    is_users: bool = False
    """Whether it is the user's own repository: unless `sandbox.java` says otherwise, a Java build
    gets its dependencies from their Maven repositories. Not part of the hash."""

    @cached_property
    def hash(self) -> str:
        """16 hex digits over everything that defines the bug."""
        digest = hashlib.sha256()
        facts = [self.id, self.problem_statement, self.gold_patch, self.image]
        facts += [*self.fail_to_pass, "|", *self.pass_to_pass]
        facts += [self.record] if self.record else []
        if self.environment != Environment():
            facts.append(repr(self.environment))
            facts += [self.environment.python] if self.environment.python else []
            facts += [self.environment.version] if self.environment.version else []
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


NO_END = "the end of the tests"
"""The doubt about a run whose process ended early. No run with it is honest."""


@dataclass(frozen=True)
class TestResults:
    __test__ = False

    statuses: Mapping[str, TestStatus]
    """By test id, for every requested test."""
    output: str
    """The runner's output, shortened."""
    timed_out: bool = False
    seconds: float = 0.0
    build_failure: str | None = None
    """Why a build failed, if not because of errors in the sources."""
    cut_short: str | None = None
    """A message if the process ended before the test runner did; the tests that had not run then
    have run alone."""
    tampered: str | None = None
    """Why the statuses can't be trusted: evidence that the code under test interfered with the run.
    None if there is none. A tampered run never counts as resolved."""
    doubts: Mapping[str, str] = field(default_factory=dict)
    """If all tests pass but a check disagrees: the test that it should have confirmed, and the
    check's result. A run with the gold patch shows whether that is legitimate
    (`collect.scoring`)."""
    of_program: tuple[str, ...] = ()
    """Those doubts that are not about a test but about what the program did to the run: a function
    that it replaced, say."""
    left_out: tuple[str, ...] = ()
    """Files of the patch that were left out (`collect.benchmarks.running.shadowing_files`)."""
    raised: Mapping[str, str] = field(default_factory=dict)
    """Of failing Java tests, the exception's class and message."""
    not_loaded: Mapping[str, str] = field(default_factory=dict)
    """Of tests that the runner could not look for: what can't be imported or compiled."""

    def with_failed_loads(self) -> TestResults:
        """The results in which a test that could not be loaded has failed. A bug's test may need
        what only the fix adds, so that its file can't be imported before the fix."""
        failed = dict.fromkeys(self.not_loaded, TestStatus.FAILED)
        return replace(self, statuses={**self.statuses, **failed})


class Benchmark(Protocol):
    @property
    def name(self) -> str: ...

    def instances(self) -> Sequence[Instance]:
        """All bugs, in a fixed order. Raises ConfigError if the data is missing or broken."""

    def prepare(self, instance: Instance, sandbox: Sandbox) -> None:
        """Write the buggy tree to an empty workspace."""

    def run_tests(self, instance: Instance, sandbox: Sandbox, tests: Iterable[str]) -> TestResults:
        """Run tests in a prepared workspace."""


@runtime_checkable
class Confirming(Protocol):
    """A benchmark whose results a program under test can write itself."""

    def unconfirmed(self, instance: Instance, sandbox: Sandbox) -> Mapping[str, str]:
        """Run the deciding tests otherwise, in a workspace where no program has run yet. Returns
        those that don't pass, and why. Raises SandboxError."""
