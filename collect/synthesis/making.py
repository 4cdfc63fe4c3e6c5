"""Make a folder of bugs for the `local` benchmark: `bugs.jsonl`, `repositories/` with the correct
trees, and `card.json`. For each project: measure its suite, judge its candidates, select bugs.

Candidates are judged in waves and selected in their order. So the result does not depend on
parallelism, or on where an earlier run was killed.
"""

from __future__ import annotations

import platform
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from collect.benchmarks.base import TestStatus
from collect.benchmarks.local import (
    BUGS_FILE,
    Difficulty,
    EditRecord,
    FailureRecord,
    LocalBenchmark,
    LocalBug,
)
from collect.benchmarks.marks import note_verified
from collect.benchmarks.projects import project as projects
from collect.benchmarks.projects.config import FactoryConfig, ProjectConfig
from collect.benchmarks.projects.project import Project, ProjectRefused, Source, fetch
from collect.benchmarks.workspace import write_folder
from collect.code.patches import diff_trees
from collect.config import RuntimeConfig
from collect.errors import ConfigError
from collect.funnel import funnel
from collect.store.atomic_files import write_text
from collect.store.build_info import code_version, digest
from collect.store.work_file import WorkFile
from collect.synthesis.candidates import Candidate, Candidates, find_candidates
from collect.synthesis.java.workbench import JavaWorkbench
from collect.synthesis.mutations.base import Mutation
from collect.synthesis.records import Card, Outcome, ProjectCard, Step
from collect.synthesis.workbench import PythonWorkbench, Suite, TrialRun, Workbench
from collect.threads import run_in_threads
from sandbox import SandboxConfig, clean_up
from sandbox.errors import ImageMissing, SandboxUnavailable
from sandbox.java.project import BUILD_FILES

# Judge an edit: some tests must catch it, twice for the same reason.


PATIENCE = 5.0
"""An edit's tests may take this many times their normal duration, plus START_SECONDS."""
START_SECONDS = 10.0
MAX_TEST_SECONDS = 1.0
"""Limit in seconds for tests that are run only as extra passing tests."""
MAX_MESSAGE = 500
"""Maximum characters of a failure's message."""


class _Dropped(Exception):
    """A candidate does not pass a step of the funnel."""

    def __init__(self, step: Step) -> None:
        super().__init__(step)
        self.step = step


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
        outcome = Outcome(candidate_id=candidate.id, kind=candidate.kind)
        try:
            return outcome.model_copy(update={"bug": self._bug(candidate)})
        except _Dropped as dropped:
            return outcome.model_copy(update={"dropped_at": dropped.step})
        except (OSError, SandboxUnavailable, ImageMissing):
            raise
        except Exception as error:  # One edit of thousands must not end the run.
            problem = f"{candidate.id} ({candidate.kind}): {type(error).__name__}: {error}"
            return outcome.model_copy(update={"dropped_at": Step.JUDGED, "problem": problem})

    def _bug(self, candidate: Candidate) -> LocalBug:
        buggy = self.workbench.edited(candidate.parts)
        if buggy is None:
            raise _Dropped(Step.PARSES)
        first = self._run(buggy, candidate.tests)
        failing = first.of_status(candidate.tests, TestStatus.FAILED)
        if first.timed_out:
            raise _Dropped(Step.ENDS)
        found = [first.statuses.get(test) for test in candidate.tests]
        if None in found or TestStatus.MISSING in found:
            raise _Dropped(Step.LOADS)
        if not failing:
            raise _Dropped(Step.FAILS)
        if len(failing) > self.config.max_failing:
            raise _Dropped(Step.FEW_FAIL)
        tests = (*candidate.tests, *self._neighbours(candidate, failing))
        second = self._run(buggy, tests, (candidate.parts, failing[0]))
        if second.reasons != first.reasons:
            raise _Dropped(Step.REPEATS)
        passing = second.of_status(tests, TestStatus.PASSED)[: self.config.max_pass_to_pass]
        if not passing:
            raise _Dropped(Step.OTHERS_PASS)
        correct = self._run(self.project.source.files, (*failing, *passing))
        if any(correct.statuses.get(t) is not TestStatus.PASSED for t in (*failing, *passing)):
            raise _Dropped(Step.FIXED)
        several = len(candidate.parts) > 1
        if several and any(self._is_idle(part, failing) for part in candidate.parts):
            raise _Dropped(Step.EACH)
        return self._record(candidate, buggy, failing, passing, second)

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
        buggy = self.workbench.edited([part])
        return buggy is None or not self._run(buggy, failing).of_status(failing, TestStatus.FAILED)

    def _run(
        self,
        files: Mapping[str, bytes],
        tests: Sequence[str],
        measured: tuple[Sequence[Mutation], str] | None = None,
    ) -> TrialRun:
        usual = sum(self.suite.seconds[test] for test in tests)
        timeout = min(self.config.test_timeout, START_SECONDS + PATIENCE * usual)
        return self.workbench.run(files, tests, timeout, measured)

    def _record(
        self,
        candidate: Candidate,
        buggy: Mapping[str, bytes],
        failing: tuple[str, ...],
        passing: tuple[str, ...],
        run: TrialRun,
    ) -> LocalBug:
        """One line of the benchmark file; `run` is on the buggy tree, with the distance."""
        source, environment = self.project.source, self.project.environment
        reason = run.reasons[failing[0]]
        edits = tuple(
            EditRecord.model_validate(part, from_attributes=True) for part in candidate.parts
        )
        counts = {"failing_tests": len(failing), "covering_tests": candidate.covering}
        return LocalBug(
            id=f"{source.slug}__{candidate.id}",
            repository=f"repositories/{source.slug}",
            project=source.name,
            language=self.project.language,
            problem_statement=self.workbench.write_issue(
                failing, run, f"{self.config.seed}:{candidate.id}"
            ),
            fail_to_pass=failing,
            pass_to_pass=passing,
            gold_patch=diff_trees(buggy, source.files),
            holds="correct",
            test_paths=self.project.test_paths,
            packages=environment.packages,
            import_paths=environment.import_paths,
            variables=environment.variables,
            category=edits[0].category if len(edits) == 1 else "combined",
            edits=edits,
            failure=FailureRecord(type=reason.type, message=reason.message[:MAX_MESSAGE]),
            difficulty=Difficulty.model_validate({**counts, **run.distance}),
        )


# Select among the verified bugs: no two alike, and not too many in one place.


class Selection:
    """Takes a project's outcomes in order."""

    def __init__(self, config: FactoryConfig) -> None:
        self._config = config
        self._patches: set[str] = set()
        self._symptoms: set[tuple[object, ...]] = set()
        self._functions: Counter[tuple[str, str]] = Counter()
        self.kept: list[LocalBug] = []
        self.dropped: Counter[Step] = Counter()
        self.problems: list[str] = []
        """Errors that kept candidates from being judged."""

    @property
    def full(self) -> bool:
        """Whether there are as many bugs as requested."""
        return len(self.kept) >= self._config.bugs_per_project

    def is_crowded(self, places: set[tuple[str, str]]) -> bool:
        """Whether one of these places already has as many bugs as allowed."""
        wanted = self._config.bugs_per_function
        return any(self._functions[place] >= wanted for place in places)

    def add(self, outcome: Outcome) -> None:
        """Keep the outcome's bug, or count the step at which it was dropped."""
        if outcome.problem:
            self.problems.append(outcome.problem)
        bug = outcome.bug
        if bug is None:
            self.dropped[outcome.dropped_at or Step.JUDGED] += 1
            return
        places = {(edit.path, edit.scope) for edit in bug.edits}
        # For a user, two edits in one place that the same tests catch in the same way are one bug.
        symptom = (frozenset(places), bug.fail_to_pass, bug.failure)
        if bug.gold_patch in self._patches or symptom in self._symptoms:
            self.dropped[Step.NEW] += 1
        elif self.is_crowded(places) or self.full:
            self.dropped[Step.WANTED] += 1
        else:
            self._patches.add(bug.gold_patch)
            self._symptoms.add(symptom)
            self._functions.update(places)
            self.kept.append(bug)


# The supported languages.


def arrange(wanted: ProjectConfig, source: Source, sandbox: SandboxConfig) -> Project:
    """Separate a project's tests from its code, and find what they need. Raises ProjectRefused."""
    language = wanted.language
    if language is None and any(name in source.files for name in BUILD_FILES):
        language = "java"
    if language == "java":
        return projects.arrange_java(wanted, source)
    return projects.arrange(wanted, source, sandbox)


def open_workbench(project: Project, sandbox: SandboxConfig, config: FactoryConfig) -> Workbench:
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
    """Results of earlier runs for one project."""

    def __init__(
        self, folder: Path, runtime: RuntimeConfig, config: FactoryConfig, project: Project
    ) -> None:
        """Raises ConfigError if the files are from a run with other settings."""
        work = folder / WORK_FOLDER
        work.mkdir(parents=True, exist_ok=True)
        slug = project.source.slug
        self._suite_file = work / f"{slug}.suite.json"
        self._seconds_file = work / f"{slug}.seconds"
        settings = {
            "factory": config.model_dump(mode="json", exclude=LATER),
            "sandbox": runtime.sandbox.model_dump(mode="json"),
            "project": [project.source.origin, repr(project.environment)],
            "paths": [project.test_paths, project.code_paths],
            "code": code_version(),
        }
        self.file = WorkFile(
            work / slug, digest(settings), Outcome, lambda outcome: outcome.candidate_id, ADVICE
        )

    def suite(self, workbench: Workbench) -> Suite:
        """The suite that an earlier run measured, or else measures it now."""
        if self._suite_file.is_file():
            return Suite.model_validate_json(self._suite_file.read_text("utf-8"))
        suite = workbench.run_suite()
        write_text(self._suite_file, suite.model_dump_json())
        return suite

    @property
    def seconds(self) -> float:
        """Seconds of work over all runs."""
        return float(self._seconds_file.read_text()) if self._seconds_file.is_file() else 0.0

    def add_seconds(self, seconds: float) -> None:
        write_text(self._seconds_file, str(self.seconds + seconds))


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

    def make(self, wanted: ProjectConfig, on_kept: Callable[..., None]) -> ProjectBugs | None:
        """A project's bugs; none if it is refused, with the reason on the card.

        None if the run was stopped before the end. `on_kept` is called with the number of bugs so
        far, as `completed`. Raises ConfigError if a work file has other settings, SandboxError.
        """
        source = Source(wanted.place, "", wanted.place, "", {})
        try:
            source = fetch(wanted, self.config)
            project = arrange(wanted, source, self.runtime.sandbox)
            work = Work(self.folder, self.runtime, self.config, project)
            return self._make(project, work, on_kept)
        except ProjectRefused as refusal:
            return ProjectBugs(_card(source, refused=str(refusal)))

    def _make(
        self, project: Project, work: Work, on_kept: Callable[..., None]
    ) -> ProjectBugs | None:
        workbench = open_workbench(project, self.runtime.sandbox, self.config)
        began = time.monotonic()
        try:
            suite = work.suite(workbench)
            candidates = find_candidates(project, suite, self.config)
            judge = Judge(project, suite, workbench, self.config)
            selection = self._select(judge, candidates, work, on_kept)
        finally:
            work.add_seconds(time.monotonic() - began)
        if self.stop.is_set():
            return None
        unread = [f"not parsed: {', '.join(candidates.unread)}"] if candidates.unread else []
        tried = sum(selection.dropped.values()) + len(selection.kept)
        card = _card(
            project.source,
            notes=(*project.notes, *unread, *selection.problems[:SHOWN_PROBLEMS]),
            tests=len(suite.tests),
            failing_tests=suite.failing,
            flaky_tests=suite.flaky,
            edits_found=candidates.found,
            edits_reached=candidates.reached,
            edits_tried=tried,
            steps=funnel(Step, selection.dropped, tried),
            bugs=len(selection.kept),
            seconds=work.seconds,
        )
        return ProjectBugs(card, selection.kept, project.source.files)

    def _select(
        self, judge: Judge, candidates: Candidates, work: Work, on_kept: Callable[..., None]
    ) -> Selection:
        """Judge wave after wave, until there are enough bugs or no candidates are left.

        Skips edits in places that already have enough bugs.
        """
        selection = Selection(self.config)
        size = max(MIN_WAVE, self.config.bugs_per_project // 2)
        for start in range(0, len(candidates.chosen), size):
            wave = [
                candidate
                for candidate in candidates.chosen[start : start + size]
                if not selection.is_crowded(candidate.places)
            ]
            missing = [candidate for candidate in wave if candidate.id not in work.file.outcomes]
            run_in_threads(
                missing,
                lambda candidate: work.file.add(judge.judge(candidate)),
                self.runtime.runner.concurrency,
                self.stop,
            )
            if self.stop.is_set():
                break
            for candidate in wave:
                selection.add(work.file.outcomes[candidate.id])
            on_kept(completed=len(selection.kept))
            if selection.full:
                break
        return selection


def _card(source: Source, **results: object) -> ProjectCard:
    names = ("name", "version", "origin", "license")
    return ProjectCard.model_validate({name: getattr(source, name) for name in names} | results)


# All projects.

CARD_FILE = "card.json"


@dataclass(frozen=True)
class Made:
    """The result of a run."""

    folder: Path
    card: Card | None
    """None if the run was stopped before the end."""


def check_factory(config: FactoryConfig) -> None:
    """Raise ConfigError if there is nothing to make bugs from."""
    if not config.projects:
        raise ConfigError("factory.projects is empty: name at least one project")


def make_bugs(runtime: RuntimeConfig, config: FactoryConfig, run: Path) -> Made:
    """Make the folder, in the run's folder unless the config names another place.

    An unusable project is on the card with the reason. Raises ConfigError if all are unusable,
    SandboxError.
    """
    check_factory(config)
    folder = run / "factory" if config.output is None else Path(config.output)
    folder.mkdir(parents=True, exist_ok=True)
    clean_up(runtime.sandbox)
    maker = ProjectMaker(runtime, config, folder, threading.Event())
    done: list[ProjectBugs] = []
    with Progress(console=Console(stderr=True)) as bar:
        for wanted in config.projects:
            task = bar.add_task(wanted.place, total=config.bugs_per_project)
            made = maker.make(wanted, partial(bar.update, task))
            if made is None:
                return Made(folder, None)
            done.append(made)
            bar.update(task, total=1, completed=1)
            bar.console.print(made.card.summary(), markup=False, highlight=False)
    if not any(made.bugs for made in done):
        why = [f"{m.card.name}: {m.card.refused or 'no edit became a bug'}" for m in done]
        raise ConfigError("not one bug could be made: " + "\n".join(why))
    card = _whole_card(runtime, config, done)
    # The bugs come last, so that no file of bugs exists without its repositories and card.
    for made in done:
        if made.bugs:
            tree = folder / made.bugs[0].repository
            shutil.rmtree(tree, ignore_errors=True)
            write_folder(tree, made.files)
    write_text(folder / CARD_FILE, card.model_dump_json(indent=2) + "\n")
    lines = [bug.model_dump_json() for made in done for bug in made.bugs]
    write_text(folder / BUGS_FILE, "".join(f"{line}\n" for line in lines))
    shutil.rmtree(folder / WORK_FOLDER)
    instances = LocalBenchmark(folder, languages=("python", "java")).instances()
    note_verified(instances, runtime.sandbox)
    return Made(folder, card)


def _whole_card(runtime: RuntimeConfig, config: FactoryConfig, done: Sequence[ProjectBugs]) -> Card:
    bugs = [bug for made in done for bug in made.bugs]
    dropped: Counter[Step] = Counter()
    for made in done:
        dropped.update({Step(step.name): step.dropped for step in made.card.steps})
    kinds = Counter("+".join(edit.kind for edit in bug.edits) for bug in bugs)
    failures = Counter(bug.failure.type for bug in bugs if bug.failure is not None)
    return Card(
        bugs=len(bugs),
        projects=tuple(made.card for made in done),
        steps=funnel(Step, dropped, sum(made.card.edits_tried for made in done)),
        kinds=dict(kinds.most_common()),
        categories=dict(Counter(bug.category or "" for bug in bugs).most_common()),
        failures=dict(failures.most_common()),
        concurrency=runtime.runner.concurrency,
        seconds=sum(made.card.seconds for made in done),
        settings=config.model_dump(mode="json"),
        versions={"stepinto": code_version(), "python": platform.python_version()},
    )


def projects_table(card: Card) -> Table:
    """One row per project; a refused one has the reason's first line."""
    table = Table(title="projects")
    table.add_column("project", overflow="fold")
    for column in ("tests", "edits", "reached", "tried", "bugs", "minutes"):
        table.add_column(column, justify="right")
    table.add_column("remarks", overflow="fold")
    for project in card.projects:
        counts = (project.tests, project.edits_found, project.edits_reached, project.edits_tried)
        table.add_row(
            f"{project.name} {project.version}",
            *map(str, (*counts, project.bugs)),
            f"{project.seconds / 60:.1f}",
            "\n".join([*(project.refused or "").splitlines()[:1], *project.notes]),
        )
    return table
