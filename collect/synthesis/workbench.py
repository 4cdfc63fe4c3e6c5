"""What the factory needs from a project in any language, and how it works for Python."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from collect.benchmarks.base import TestStatus
from collect.benchmarks.projects.config import FactoryConfig
from collect.benchmarks.projects.failing_input import Scene, unbound
from collect.benchmarks.projects.issue_text import (
    Claim,
    Outcome,
    Symptom,
    compose,
    excerpts,
    failing_inputs,
    read_claim,
    read_symptom,
    visible,
    write_issue,
)
from collect.benchmarks.projects.project import Project, ProjectRefused, Reason, read_reasons
from collect.benchmarks.pytest_run import PytestJob, PytestRun, run_job, statuses
from collect.benchmarks.workspace import with_environment, with_project
from collect.store.files import StrictRecord
from collect.synthesis.mutations.base import Mutation, apply_all
from collect.synthesis.mutations.finding import leaves_trace
from sandbox import Command, Sandbox, SandboxConfig, open_sandbox
from sandbox.errors import SandboxUnavailable
from sandbox.languages.python.pytest_options import read_project_options

WATCHED = "watched.json"
"""What `watching_plugin` writes."""
SHOWN_OUTPUT = 1500
"""Characters from the end of the runner's output that a message shows."""


class Suite(StrictRecord):
    """The results of two runs of the unedited project's suite."""

    tests: tuple[str, ...]
    """Tests that passed in both runs, in run order."""
    seconds: Mapping[str, float]
    """Duration of each of `tests` in the second run."""
    lines: Mapping[str, Mapping[int, tuple[int, ...]]]
    """For each file and line, the tests that run the line, as indices into `tests`. Without lines
    that run only during imports."""


def read_suite(
    project: Project,
    config: FactoryConfig,
    first: Mapping[str, TestStatus],
    second: Mapping[str, TestStatus],
    *,
    seconds: Iterable[tuple[str, float]],
    covered: Mapping[str, Mapping[int, Iterable[str]]],
    output: str,
) -> Suite:
    """Build the suite from the statuses of two runs.

    `seconds` are durations of tests or their phases, `covered` the tests that run each file's
    lines. Raises ProjectRefused if too few tests pass, or none runs the project's code.
    """
    everything = {**first, **second}
    passed = [t for t in everything if first.get(t) is second.get(t) is TestStatus.PASSED]
    if len(passed) < config.min_tests:
        raise ProjectRefused(
            f"{project.source.slug}: only {len(passed)} tests pass, fewer than factory.min_tests "
            f"({config.min_tests}), of {len(everything)} that were run; the last lines of its "
            f"suite:\n{output.strip()[-SHOWN_OUTPUT:]}"
        )
    durations = dict.fromkeys(passed, 0.0)
    for test, duration in seconds:
        if test in durations:
            durations[test] += duration
    index = {test: number for number, test in enumerate(passed)}
    lines: dict[str, dict[int, tuple[int, ...]]] = {}
    for path, by_line in covered.items():
        for line, tests in sorted(by_line.items()):
            kept = tuple(sorted(index[test] for test in tests if test in index))
            if kept:
                lines.setdefault(path, {})[line] = kept
    if not lines:
        raise ProjectRefused(
            f"{project.source.slug}: its tests run no line of its files; if it is Python, set "
            "import_paths to the folder that its packages lie in"
        )
    return Suite(tests=tuple(passed), seconds=durations, lines=lines)


@dataclass(frozen=True)
class Return:
    """A return of a faulty function."""

    calls_to_end: int
    """Calls from here to the end of the test."""
    stack: tuple[tuple[str, str], ...]
    """Path and function of each frame, from the test to the faulty function."""
    effect: str
    """A digest of what it returns and of its arguments afterwards."""


@dataclass(frozen=True)
class TrialRun:
    """The results of one run of some tests on one state of a project."""

    statuses: Mapping[str, TestStatus]
    """Statuses of the reported tests."""
    reasons: Mapping[str, Reason]
    """Reasons of the failed tests."""
    output: str = ""
    timed_out: bool = False
    distance: Mapping[str, int | bool | None] = field(default_factory=dict)
    """Measurements on one failing test, by field name of `Difficulty`; empty if there are none."""
    returns: Sequence[Return] = ()
    """The returns of the faulty functions in this test, in order."""
    failure: Sequence[tuple[str, str, int]] = ()
    """Path, function and line of each frame of this test's traceback, from the test inwards."""
    scene: Scene | None = None
    """What the failing test's own code shows; Python only."""
    traces: Mapping[str, str] = field(default_factory=dict)
    """Stack traces of failed tests, if the runner reports them separately."""

    def of_status(self, tests: Sequence[str], status: TestStatus) -> tuple[str, ...]:
        """The tests with this status."""
        return tuple(test for test in tests if self.statuses.get(test) is status)


class Workbench(Protocol):
    """One project that can be run, edited and run again. Thread-safe."""

    def run_suite(self) -> Suite:
        """Run the unedited project's suite twice. Raises ProjectRefused, SandboxError."""

    def edited(self, edits: Sequence[Mutation]) -> Mapping[str, bytes] | None:
        """The whole edited tree; None if it is no longer a valid program, or if the edits leave a
        trace: see `leaves_trace`."""

    def run(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        timeout: float,
        measured: tuple[Sequence[Mutation], str] | None = None,
    ) -> TrialRun:
        """Run tests on a state of the project in a fresh sandbox; `timeout` is in seconds.

        `measured` are edits and a test: also watches the edited functions in that test. Raises
        SandboxError.
        """

    def group_of(self, test: str) -> str:
        """The file or class of a test."""

    def write_issue(
        self, failing: Sequence[str], run: TrialRun, files: Mapping[str, bytes], seed: str
    ) -> str:
        """A user's bug report, from the symptom of the first of these tests alone; empty if that
        does not tell what should happen. `run` is on the buggy `files`."""


@dataclass(frozen=True)
class PythonWorkbench:
    project: Project
    sandbox: SandboxConfig
    config: FactoryConfig

    def run_suite(self) -> Suite:
        # The first time with coverage.
        files, timeout = self.project.source.files, self.config.suite_timeout
        job = PytestJob(self.project.suite_paths)
        first = self._run(files, watched(job, code=self.project.code_paths), timeout)
        if WATCHED not in first.outputs:
            raise self._refusal(first)
        second = self._run(files, job, timeout)
        if second.result.timed_out:
            raise self._refusal(second)
        coverage = json.loads(first.outputs[WATCHED])
        names = coverage["tests"]
        return read_suite(
            self.project,
            self.config,
            statuses(first.reports),
            statuses(second.reports),
            seconds=[(str(each["nodeid"]), float(str(each["seconds"]))) for each in second.reports],
            covered={
                path: {int(line): [names[test] for test in tests] for line, tests in lines.items()}
                for path, lines in coverage["lines"].items()
            },
            output=second.output,
        )

    def _refusal(self, run: PytestRun) -> Exception:
        if "No module named 'coverage'" in run.output:
            return SandboxUnavailable(
                "the sandbox's Python has no coverage.py: install it there, or set sandbox.python "
                "to an interpreter that has it"
            )
        why = f"does not run:\n{run.output.strip()[-SHOWN_OUTPUT:]}"
        if run.result.timed_out:
            why = (
                f"did not end in factory.suite_timeout ({self.config.suite_timeout:.0f} s); name "
                "fewer `tests`, or raise it"
            )
        return ProjectRefused(f"{self.project.source.slug}: its suite {why}")

    def edited(self, edits: Sequence[Mutation]) -> Mapping[str, bytes] | None:
        code = apply_all(edits)
        try:
            if leaves_trace(edits[0].source, code):
                return None
        except (SyntaxError, ValueError):
            return None
        return {**self.project.source.files, edits[0].path: code.encode()}

    def run(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        timeout: float,
        measured: tuple[Sequence[Mutation], str] | None = None,
    ) -> TrialRun:
        job = PytestJob(list(dict.fromkeys(map(self.group_of, tests))), tests)
        if measured is not None:
            edits, test = measured
            scopes = [(e.path, e.scope.rpartition(".")[2], *e.scope_lines) for e in edits]
            job = watched(job, test=test, scopes=scopes, tests=self.project.test_paths)
        run = self._run(files, job, timeout)
        watched_run = json.loads(run.outputs.get(WATCHED, b"{}"))
        stacks = [tuple(map(tuple, stack)) for stack in watched_run.pop("stacks", ())]
        returns = watched_run.pop("returns", ())
        return TrialRun(
            statuses(run.reports),
            read_reasons(run.reports),
            run.output,
            run.result.timed_out,
            returns=[Return(calls, stacks[stack], effect) for calls, stack, effect in returns],
            failure=[tuple(frame) for frame in watched_run.pop("failure", ())],
            scene=Scene(**scene) if (scene := watched_run.pop("scene", None)) else None,
            distance=watched_run,
        )

    def _run(self, files: Mapping[str, bytes], job: PytestJob, timeout: float) -> PytestRun:
        with self._opened(files) as opened:
            return run_job(opened, job, timeout)

    def group_of(self, test: str) -> str:
        return test.partition("::")[0]

    def write_issue(
        self, failing: Sequence[str], run: TrialRun, files: Mapping[str, bytes], seed: str
    ) -> str:
        reason, correct = run.reasons[failing[0]], self.project.source.files
        symptom = read_symptom(
            self.project.source.name,
            failing,
            files=correct,
            exception=reason.type,
            message=reason.message,
            output=run.output,
            scene=run.scene,
        )
        tests = failing if self.config.issue_names_test else ()
        with self._opened(files) as buggy, self._opened(correct) as right:
            found = reproduce(symptom, Trees(buggy, right))
        if found is None:
            return write_issue(symptom, seed) if tests else ""
        claim, shown = found
        return compose(claim, tests, {"project": symptom.project, **shown}, seed)

    @contextmanager
    def _opened(self, files: Mapping[str, bytes]) -> Iterator[Sandbox]:
        environment = self.project.environment
        config = with_environment(self.sandbox, environment, files)
        options = read_project_options(files, self.project.test_paths)
        with open_sandbox(with_project(config, environment, files, options)) as opened:
            opened.write_files(files)
            yield opened


def watched(job: PytestJob, **told: object) -> PytestJob:
    """The job with `watching_plugin`, which is told this."""
    plugin = Path(__file__).with_name("watching_plugin.py").read_bytes()
    inputs = {"watch.json": json.dumps(told).encode()}
    return replace(job, plugins={"stepinto_watching": plugin}, inputs=inputs, outputs=(WATCHED,))


# A program that shows a bug: what it does in the buggy and in the correct project is what an issue
# tells.

SECONDS = 20.0
"""Time for one run of a program."""
_SHOWING = "import builtins; print = lambda *values: builtins.print(*map(repr, values))\n"
"""Shows strings with their quotes, on one line."""
_RAISED = re.compile(r"^(?:\w+\.)*(\w+)(?:: (.*))?\Z", re.DOTALL)
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")


@dataclass(frozen=True)
class Ending:
    """What a program printed, or the exception that ended it."""

    printed: str
    exception: str = ""
    """Its class, without the module."""
    message: str = ""


@dataclass(frozen=True)
class Trees:
    """The buggy and the correct project, each in a sandbox."""

    buggy: Sandbox
    correct: Sandbox

    def run(self, code: str) -> tuple[Ending, Ending] | None:
        """How a Python program ends in each; None if one does not end."""
        both = [_run(code, sandbox) for sandbox in (self.buggy, self.correct)]
        return (both[0], both[1]) if both[0] and both[1] else None


def _run(code: str, sandbox: Sandbox) -> Ending | None:
    argv = [sandbox.python, "-W", "ignore", "-"]
    environment, source = {"PYTHONHASHSEED": "0"}, (_SHOWING + code).encode()
    # Outside the workspace, without the tests' files.
    result = sandbox.run(Command(argv, "/tmp", environment, source, SECONDS))
    if result.timed_out:
        return None
    output = _ADDRESS.sub("0x…", result.output)
    printed, _, trace = output.rpartition("Traceback (most recent call last):\n")
    raised = re.search(r"^\S.*", trace, re.MULTILINE | re.DOTALL)
    if result.exit_code == 0 or raised is None:
        return Ending(output.strip())
    named = _RAISED.match(raised[0].strip())
    kind, message = named.groups() if named is not None else (raised[0], "")
    return Ending(printed.strip(), kind, message or "")


def reproduce(symptom: Symptom, trees: Trees) -> tuple[Claim, dict[str, str]] | None:
    """What a user sees who runs a part of the failing test, and that program with the exception;
    None if no part shows the bug and what should happen."""
    claim = read_claim(symptom)
    for code in failing_inputs(symptom):
        endings = trees.run(code) if trees.buggy.workspace not in code else None
        told = _told(claim, *endings, symptom) if endings is not None else None
        if told is not None and endings is not None:
            shown = {"snippet": _reduced(code, endings, trees), "exception": endings[0].exception}
            return told, shown
    return None


def _reduced(code: str, endings: tuple[Ending, Ending], trees: Trees) -> str:
    """The program without those of its statements that don't change how it ends."""
    lines = code.split("\n")
    for node in ast.parse(code).body[-2::-1]:
        first = min(part.lineno for part in ast.walk(node) if isinstance(part, ast.stmt | ast.expr))
        fewer = [*lines[: first - 1], *lines[node.end_lineno or first :]]
        shorter = "\n".join(fewer)
        if not unbound(ast.parse(shorter)) and trees.run(shorter) == endings:
            lines = fewer
    return "\n".join(lines).strip("\n")


def _told(claim: Claim, wrong: Ending, right: Ending, symptom: Symptom) -> Claim | None:
    """The claim with these endings; None if they are equal, or a user could not tell from it what
    should happen."""
    if wrong == right:
        return None
    value = partial(visible, symptom=symptom, printed=True)
    message = visible(wrong.message.split("\n")[0], symptom)
    told = replace(claim, expected="", actual="", condition="", message=message)
    if right.exception:
        told = replace(told, outcome=Outcome.NO_ERROR, expected=right.exception)
        if wrong.exception == right.exception:
            both = visible(right.message, symptom), visible(wrong.message, symptom)
            told = replace(told, outcome=Outcome.WRONG_MESSAGE, expected=both[0], actual=both[1])
        elif wrong.exception:
            told = replace(told, outcome=Outcome.WRONG_ERROR)
    elif wrong.exception == "AssertionError" and claim.outcome is Outcome.UNMET:
        told = claim
    elif wrong.exception:
        told = replace(told, outcome=Outcome.ERROR, expected=value(right.printed))
    else:
        actual, expected = map(value, excerpts(wrong.printed, right.printed))
        told = replace(told, outcome=Outcome.WRONG_VALUE, expected=expected, actual=actual)
    blind = told.outcome is Outcome.WRONG_VALUE and not told.actual
    return told if told.tells and not blind else None
