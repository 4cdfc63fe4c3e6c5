"""Make the bugs of one project: measure its suite, judge its candidates, select bugs.

Candidates are judged in waves and selected in their order. So the result does not depend on
parallelism, or on where an earlier run was killed.
"""

from __future__ import annotations

import ast
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import ValidationError

from collect.benchmarks.base import TestStatus
from collect.benchmarks.local import LocalBug
from collect.benchmarks.projects import layout
from collect.benchmarks.projects.config import FactoryConfig, ProjectConfig
from collect.benchmarks.projects.issue_text import read_symptom, write_issue
from collect.benchmarks.projects.java_layout import arrange as arrange_java
from collect.benchmarks.projects.project import Project, ProjectRefused, Source, read_reasons
from collect.benchmarks.projects.sources import fetch
from collect.benchmarks.pytest_run import PytestJob, run_job, statuses
from collect.benchmarks.workspace import with_environment
from collect.config import RuntimeConfig
from collect.funnel import funnel
from collect.store.atomic_files import write_text
from collect.store.build_info import code_version, digest
from collect.store.work_file import WorkFile
from collect.synthesis.bug import Caught, make_bug
from collect.synthesis.candidates import Candidate, Candidates, Place, find_candidates
from collect.synthesis.java.workbench import JavaWorkbench
from collect.synthesis.mutations import CombinedMutation, Mutation
from collect.synthesis.records import Outcome, ProjectCard, Step
from collect.synthesis.suite import Suite, run_suite
from collect.synthesis.workbench import TrialRun, Workbench
from collect.threads import run_in_threads
from sandbox import SandboxConfig, open_sandbox
from sandbox.errors import ImageMissing, SandboxUnavailable
from sandbox.java.scan import BUILD_FILES

PLUGIN = "stepinto_distance"
FAULT_FILE = "fault.json"
DISTANCE_FILE = "distance.json"


@dataclass(frozen=True)
class PythonWorkbench:
    """See `collect.synthesis.workbench.Workbench`."""

    project: Project
    sandbox: SandboxConfig
    config: FactoryConfig

    def run_suite(self) -> Suite:
        return run_suite(self.project, self.sandbox, self.config)

    def edited(self, mutation: Mutation | CombinedMutation) -> Mapping[str, bytes] | None:
        code = mutation.apply()
        try:
            ast.parse(code)
        except (SyntaxError, ValueError):
            return None
        return {**self.project.source.files, mutation.path: code.encode()}

    def run(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        timeout: float,
        measured: tuple[Candidate, str] | None = None,
    ) -> TrialRun:
        job = PytestJob(list(dict.fromkeys(map(self.group_of, tests))), tests)
        if measured is not None:
            job = _measured(job, *measured)
        with open_sandbox(with_environment(self.sandbox, self.project.environment)) as opened:
            opened.write_files(files)
            run = run_job(opened, job, timeout)
        return TrialRun(
            statuses(run.reports),
            read_reasons(run.reports),
            run.output,
            run.result.timed_out,
            json.loads(run.outputs.get(DISTANCE_FILE, b"{}")),
        )

    def group_of(self, test: str) -> str:
        return test.partition("::")[0]

    def write_issue(self, caught: Caught, seed: str) -> str:
        symptom = read_symptom(
            self.project.source.name,
            caught.failing,
            files=self.project.source.files,
            exception=caught.reason.type,
            message=caught.reason.message,
            output=caught.output,
        )
        return write_issue(symptom, seed)


def _measured(job: PytestJob, candidate: Candidate, test: str) -> PytestJob:
    scopes = [
        {
            "path": part.path,
            "name": part.scope.rpartition(".")[2],
            "first": part.scope_lines[0],
            "last": part.scope_lines[1],
        }
        for part in candidate.parts
    ]
    return replace(
        job,
        plugins={PLUGIN: Path(__file__).with_name("distance_plugin.py").read_bytes()},
        inputs={FAULT_FILE: json.dumps({"test": test, "scopes": scopes}).encode()},
        outputs=(DISTANCE_FILE,),
    )


# Judge an edit: some tests must catch it, twice for the same reason.


PATIENCE = 5.0
"""An edit's tests may take this many times their normal duration, plus START_SECONDS."""
START_SECONDS = 10.0
MAX_TEST_SECONDS = 1.0
"""Limit in seconds for tests that are run only as extra passing tests."""


@dataclass(frozen=True)
class Judge:
    """Judges the candidates of one project. Thread-safe."""

    project: Project
    suite: Suite
    workbench: Workbench
    config: FactoryConfig

    def judge(self, candidate: Candidate) -> Outcome:
        """All steps that need only this candidate.

        Raises OSError, SandboxUnavailable and ImageMissing, which would affect every candidate.
        """
        kind = candidate.mutation.kind
        try:
            found = self._found(candidate)
        except (OSError, SandboxUnavailable, ImageMissing):
            raise
        except Exception as error:  # One edit of thousands must not end the run.
            problem = f"{candidate.id} ({kind}): {type(error).__name__}: {error}"
            return Outcome(
                candidate_id=candidate.id, kind=kind, dropped_at=Step.JUDGED, problem=problem
            )
        if isinstance(found, Step):
            return Outcome(candidate_id=candidate.id, kind=kind, dropped_at=found)
        return Outcome(candidate_id=candidate.id, kind=kind, bug=found)

    def _found(self, candidate: Candidate) -> LocalBug | Step:
        buggy = self.workbench.edited(candidate.mutation)
        if buggy is None:
            return Step.PARSES
        first = self._run(buggy, candidate.tests)
        step = self._stopped_at(first, candidate)
        if step is not None:
            return step
        caught = self._caught_again(candidate, buggy, first)
        if isinstance(caught, Step):
            return caught
        kept = (*caught.failing, *caught.passing)
        correct = self._run(self.project.source.files, kept)
        if correct.of_status(kept, TestStatus.PASSED) != kept:
            return Step.FIXED
        several = len(candidate.parts) > 1
        if several and any(self._is_idle(part, caught.failing) for part in candidate.parts):
            return Step.EACH
        seed = f"{self.config.seed}:{candidate.id}"
        return make_bug(self.project, candidate, caught, self.workbench.write_issue(caught, seed))

    def _stopped_at(self, run: TrialRun, candidate: Candidate) -> Step | None:
        if run.timed_out:
            return Step.ENDS
        found = run.statuses
        if any(found.get(test) in (None, TestStatus.MISSING) for test in candidate.tests):
            return Step.LOADS
        failing = len(run.of_status(candidate.tests, TestStatus.FAILED))
        if failing == 0:
            return Step.FAILS
        return Step.FEW_FAIL if failing > self.config.max_failing else None

    def _caught_again(
        self, candidate: Candidate, buggy: Mapping[str, bytes], first: TrialRun
    ) -> Caught | Step:
        """Run again, and measure the distance to the first failure."""
        failing = first.of_status(candidate.tests, TestStatus.FAILED)
        tests = (*candidate.tests, *self._neighbours(candidate, failing))
        second = self._run(buggy, tests, (candidate, failing[0]))
        if second.reasons != first.reasons:
            return Step.REPEATS
        passing = second.of_status(tests, TestStatus.PASSED)[: self.config.max_pass_to_pass]
        if not passing:
            return Step.OTHERS_PASS
        return Caught(
            files=buggy,
            failing=failing,
            passing=passing,
            reason=second.reasons[failing[0]],
            output=second.output,
            distance=second.distance,
            trace=second.traces.get(failing[0], ""),
        )

    def _neighbours(self, candidate: Candidate, failing: Sequence[str]) -> list[str]:
        """Tests that don't reach the fault, first those in the failing tests' files."""
        group_of = self.workbench.group_of
        files = set(map(group_of, failing))
        near = [test for test in self.suite.tests if group_of(test) in files]
        others = [
            test
            for test in dict.fromkeys([*near, *self.suite.tests])
            if test not in candidate.tests and self.suite.seconds[test] < MAX_TEST_SECONDS
        ]
        wanted = self.config.max_pass_to_pass - len(candidate.tests) + len(failing)
        return others[: max(wanted, 0)]

    def _is_idle(self, part: Mutation, failing: Sequence[str]) -> bool:
        """Whether one of several edits makes no test fail by itself, so that the others alone are
        the bug."""
        buggy = self.workbench.edited(part)
        return buggy is None or not self._run(buggy, failing).of_status(failing, TestStatus.FAILED)

    def _run(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        measured: tuple[Candidate, str] | None = None,
    ) -> TrialRun:
        usual = sum(self.suite.seconds[test] for test in tests)
        timeout = min(self.config.test_timeout, START_SECONDS + PATIENCE * usual)
        return self.workbench.run(files, tests, timeout, measured)


# Select among the verified bugs: no two alike, and not too many in one place.


class Selection:
    """Takes a project's outcomes in order."""

    def __init__(self, config: FactoryConfig) -> None:
        self._config = config
        self._patches: set[str] = set()
        self._symptoms: set[tuple[object, ...]] = set()
        self._functions: Counter[Place] = Counter()
        self.kept: list[LocalBug] = []
        self.dropped: Counter[Step] = Counter()
        self.problems: list[str] = []
        """Errors that kept candidates from being judged."""

    @property
    def full(self) -> bool:
        """Whether there are as many bugs as requested."""
        return len(self.kept) >= self._config.bugs_per_project

    def is_crowded(self, places: Iterable[Place]) -> bool:
        """Whether one of these places already has as many bugs as allowed."""
        wanted = self._config.bugs_per_function
        return any(self._functions[place] >= wanted for place in places)

    def add(self, outcome: Outcome) -> None:
        """Keep the outcome's bug, or count the step at which it was dropped."""
        step = outcome.dropped_at
        if step is None and outcome.bug is not None:
            step = self._judge(outcome.bug)
            if step is None:
                self.kept.append(outcome.bug)
        if step is not None:
            self.dropped[step] += 1
        if outcome.problem:
            self.problems.append(outcome.problem)

    def _judge(self, bug: LocalBug) -> Step | None:
        places = {(edit.path, edit.scope) for edit in bug.edits}
        # For a user, two edits in one place that the same tests catch in the same way are one bug.
        symptom = (frozenset(places), bug.fail_to_pass, bug.failure)
        if bug.gold_patch in self._patches or symptom in self._symptoms:
            return Step.NEW
        if self.is_crowded(places) or self.full:
            return Step.WANTED
        self._patches.add(bug.gold_patch)
        self._symptoms.add(symptom)
        self._functions.update(places)
        return None


# The supported languages.


def arrange(wanted: ProjectConfig, source: Source, sandbox: SandboxConfig) -> Project:
    """Separate a project's tests from its code, and find what they need. Raises ProjectRefused."""
    language = wanted.language
    if language is None and any(name in source.files for name in BUILD_FILES):
        language = "java"
    if language == "java":
        return arrange_java(wanted, source)
    return layout.arrange(wanted, source, sandbox)


def open_workbench(project: Project, sandbox: SandboxConfig, config: FactoryConfig) -> Workbench:
    """Open the workbench that runs and edits a project."""
    if project.language == "java":
        return JavaWorkbench(project, sandbox, config)
    return PythonWorkbench(project, sandbox, config)


# A project's progress on disk: its suite, and the outcomes so far.


WORK_FOLDER = ".work"
ADVICE = (
    "other factory or sandbox settings, or of another version of StepInto or the project; remove "
    "its folder, or choose another factory.output"
)
LATER = {"projects", "bugs_per_project", "bugs_per_function", "output"}
"""Settings that select among outcomes or set where they go, and don't change any."""


class Work:
    """Results of earlier runs for one project. `outcomes` are by candidate id."""

    def __init__(self, folder: Path, project: Project, settings: str) -> None:
        """Raises ConfigError if the files are from a run with other settings."""
        work = folder / WORK_FOLDER
        work.mkdir(parents=True, exist_ok=True)
        slug = project.source.slug
        self._suite_file = work / f"{slug}.suite.json"
        self._seconds_file = work / f"{slug}.seconds"
        self._outcomes = WorkFile(
            work / slug, settings, Outcome, lambda outcome: outcome.candidate_id, ADVICE
        )
        self.outcomes = self._outcomes.outcomes

    def suite(self) -> Suite | None:
        """The suite that an earlier run measured."""
        try:
            return Suite.model_validate_json(self._suite_file.read_text("utf-8"))
        except (FileNotFoundError, ValidationError):
            return None

    def keep_suite(self, suite: Suite) -> None:
        """Save the suite for a later run."""
        write_text(self._suite_file, suite.model_dump_json())

    def add(self, outcome: Outcome) -> None:
        """Save an outcome. Thread-safe."""
        self._outcomes.add(outcome)

    @property
    def seconds(self) -> float:
        """Seconds of work over all runs."""
        return float(self._seconds_file.read_text()) if self._seconds_file.is_file() else 0.0

    def add_seconds(self, seconds: float) -> None:
        """Add seconds of this run."""
        write_text(self._seconds_file, str(self.seconds + seconds))


def settings_hash(runtime: RuntimeConfig, config: FactoryConfig, project: Project) -> str:
    """16 hex digits over everything that affects the outcomes of a project's candidates."""
    facts: Mapping[str, object] = {
        "factory": config.model_dump(mode="json", exclude=LATER),
        "sandbox": runtime.sandbox.model_dump(mode="json"),
        "project": [project.source.origin, repr(project.environment)],
        "paths": [project.test_paths, project.code_paths],
        "code": code_version(),
    }
    return digest(facts)


SHOWN_PROBLEMS = 5
"""Limit of problems shown on a project's card."""
MIN_WAVE = 8
"""Minimum number of candidates judged between checks whether there are enough bugs."""


@dataclass(frozen=True)
class ProjectBugs:
    """The bugs of a project."""

    card: ProjectCard
    bugs: Sequence[LocalBug] = ()
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The correct tree."""


@dataclass(frozen=True)
class ProjectMaker:
    """Makes the bugs of one project after another."""

    runtime: RuntimeConfig
    config: FactoryConfig
    folder: Path
    stop: threading.Event

    def make(self, wanted: ProjectConfig, on_kept: Callable[[int], None]) -> ProjectBugs | None:
        """A project's bugs; none if it is refused, with the reason on the card.

        None if the run was stopped before the end. `on_kept` is called with the number of bugs so
        far. Raises ConfigError if a work file has other settings, SandboxError.
        """
        source: Source | None = None
        try:
            source = fetch(wanted, self.config)
            project = arrange(wanted, source, self.runtime.sandbox)
            return self._make(project, on_kept)
        except ProjectRefused as refusal:
            return ProjectBugs(_refused(wanted, source, refusal))

    def _make(self, project: Project, on_kept: Callable[[int], None]) -> ProjectBugs | None:
        work = Work(self.folder, project, settings_hash(self.runtime, self.config, project))
        workbench = open_workbench(project, self.runtime.sandbox, self.config)
        began = time.monotonic()
        try:
            suite = work.suite()
            if suite is None:
                suite = workbench.run_suite()
                work.keep_suite(suite)
            candidates = find_candidates(project, suite, self.config)
            judge = Judge(project, suite, workbench, self.config)
            selection = self._select(judge, candidates.chosen, work, on_kept)
        finally:
            work.add_seconds(time.monotonic() - began)
        if self.stop.is_set():
            return None
        card = _card(project, suite, candidates, selection, work.seconds)
        return ProjectBugs(card, selection.kept, project.source.files)

    def _select(
        self,
        judge: Judge,
        candidates: Sequence[Candidate],
        work: Work,
        on_kept: Callable[[int], None],
    ) -> Selection:
        """Judge wave after wave, until there are enough bugs or no candidates are left.

        Skips edits in places that already have enough bugs.
        """
        selection = Selection(self.config)
        size = max(MIN_WAVE, self.config.bugs_per_project // 2)
        for start in range(0, len(candidates), size):
            wave = [
                candidate
                for candidate in candidates[start : start + size]
                if not selection.is_crowded(candidate.places)
            ]
            missing = [candidate for candidate in wave if candidate.id not in work.outcomes]
            run_in_threads(
                missing,
                lambda candidate: work.add(judge.judge(candidate)),
                self.runtime.runner.concurrency,
                self.stop,
            )
            if self.stop.is_set():
                break
            for candidate in wave:
                selection.add(work.outcomes[candidate.id])
            on_kept(len(selection.kept))
            if selection.full:
                break
        return selection


def _refused(wanted: ProjectConfig, source: Source | None, refusal: Exception) -> ProjectCard:
    return ProjectCard(
        name=wanted.place if source is None else source.name,
        version="" if source is None else source.version,
        origin=wanted.place if source is None else source.origin,
        license="" if source is None else source.license,
        refused=str(refusal),
    )


def _card(
    project: Project, suite: Suite, candidates: Candidates, selection: Selection, seconds: float
) -> ProjectCard:
    unread = [f"not parsed: {', '.join(candidates.unread)}"] if candidates.unread else []
    tried = sum(selection.dropped.values()) + len(selection.kept)
    return ProjectCard(
        name=project.source.name,
        version=project.source.version,
        origin=project.source.origin,
        license=project.source.license,
        notes=(*project.notes, *unread, *selection.problems[:SHOWN_PROBLEMS]),
        tests=len(suite.tests),
        failing_tests=suite.failing,
        flaky_tests=suite.flaky,
        edits_found=candidates.found,
        edits_reached=candidates.reached,
        edits_tried=tried,
        steps=funnel(Step, selection.dropped, tried),
        bugs=len(selection.kept),
        seconds=seconds,
    )
