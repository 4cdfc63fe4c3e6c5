"""Make a folder of bugs for the `local` benchmark: `bugs.jsonl`, `repositories/` with the correct
trees, and `card.json`. For each project: measure its suite, choose edits, judge them, select bugs.

Edits are judged in waves and selected in their order. So the result does not depend on
parallelism, or on where an earlier run was killed.
"""

from __future__ import annotations

import hashlib
import platform
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate
from pathlib import Path

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
from collect.benchmarks.projects.config import FactoryConfig, HardFeature, ProjectConfig
from collect.benchmarks.projects.project import (
    Project,
    ProjectRefused,
    Source,
    arrange,
    fetch,
)
from collect.benchmarks.workspace import own_modules, write_folder
from collect.code.patches import diff_trees
from collect.config import RuntimeConfig
from collect.console import VisibleConsole
from collect.errors import ConfigError
from collect.quantities import FunnelStep, counted, duration, first_of, funnel
from collect.rollouts.progress import ProgressBar
from collect.store.files import StrictRecord, WorkFile, read_card, write_text
from collect.store.records import code_version, digest
from collect.synthesis.difficulty import (
    Clues,
    features_of,
    is_hard_enough,
    is_natural,
    measure_distance,
    rank_functions,
    reading_rank,
    test_function,
)
from collect.synthesis.java.workbench import JavaWorkbench
from collect.synthesis.java_mutations.finding import find_java_mutations
from collect.synthesis.mutations.base import Mutation
from collect.synthesis.mutations.finding import chosen, combined, find_project_mutations
from collect.synthesis.workbench import PythonWorkbench, Suite, TrialRun, Workbench
from collect.threads import run_in_threads
from sandbox import clean_up
from sandbox.errors import ImageMissing, SandboxUnavailable
from sandbox.java.dependencies import for_project
from sandbox.packages import runner_modules

# Choose the edits of a project to try, and the tests to run for each.

TRIES_PER_FUNCTION = 3
"""Candidates tried in one function for each bug that may be kept there."""
TEST_SECONDS = 4.0
"""Limit for the tests of one candidate, by their duration in the unedited project."""


@dataclass(frozen=True)
class Candidate:
    """One edited version of a project."""

    parts: tuple[Mutation, ...]
    """Edits of one file, in text order."""
    tests: tuple[str, ...]
    """Tests to run, in suite order."""
    covering: int
    """Number of tests that reach the edited code; `tests` may be a sample of them."""

    @property
    def id(self) -> str:
        """8 hex digits, equal for the same edit of the same project."""
        facts = [f"{part.path}\0{part.start}\0{part.end}\0{part.text}" for part in self.parts]
        return hashlib.sha256("\0\0".join(facts).encode()).hexdigest()[:8]

    @property
    def kind(self) -> str:
        """The edits' kinds, joined by "+"."""
        return "+".join(part.kind for part in self.parts)


@dataclass(frozen=True)
class Candidates:
    """Candidates in the order to try them."""

    chosen: Sequence[Candidate]
    found: int
    """Number of edits that the mutation kinds find."""
    reached: int
    """Number of these edits whose code a test runs."""
    unread: tuple[str, ...]
    """Files that can't be parsed."""


def find_candidates(project: Project, suite: Suite, config: FactoryConfig) -> Candidates:
    """At most `candidates_per_project`; deterministic for a project, suite and seed."""
    find = find_java_mutations if project.language == "java" else find_project_mutations
    mutations: list[Mutation] = []
    unread = []
    for path in project.code_paths:
        if path in suite.lines:
            try:
                mutations += find(project.source.files[path].decode(), path)
            except (ConfigError, UnicodeDecodeError):
                unread.append(path)
    seed = f"{config.seed}:{project.source.name}"
    natural = HardFeature.NATURAL in config.difficulty.required
    reached = [
        mutation
        for mutation in mutations
        if _reaching(mutation, suite)
        and (not natural or is_natural(mutation.kind, project.language))
    ]
    per_scope = config.bugs_per_function * TRIES_PER_FUNCTION
    single = chosen(reached, seed, config.candidates_per_project, per_scope=per_scope)
    pairs = combined(single, seed, round(config.combined_share * len(single)))
    # Single edits, with the pairs at even distances.
    ranked: list[tuple[float, tuple[Mutation, ...]]] = []
    ranked += [(number / len(single), (each,)) for number, each in enumerate(single)]
    ranked += [((number + 0.5) / len(pairs), pair) for number, pair in enumerate(pairs)]
    ranked.sort(key=lambda each: each[0])
    candidates = []
    for _, parts in ranked[: config.candidates_per_project]:
        covering = frozenset().union(*(_reaching(part, suite) for part in parts))
        candidates.append(Candidate(parts, _sample(covering, suite, config, seed), len(covering)))
    return Candidates(candidates, len(mutations), len(reached), tuple(unread))


def _reaching(mutation: Mutation, suite: Suite) -> frozenset[int]:
    """The tests that run the edited line. For the header of a function or class, or module-level
    code, all tests that run the code below it: the line itself runs only during import."""
    lines = suite.lines.get(mutation.path, {})
    first, last = mutation.scope_lines
    inside = [line for line in lines if first <= line <= last] if mutation.scope else list(lines)
    if mutation.scope and mutation.line in lines:
        inside = [mutation.line]
    elif mutation.scope and mutation.line > first:
        # Coverage reports a statement of several lines at its first line.
        before = [line for line in inside if line <= mutation.line]
        inside = [max(before)] if before else inside
    return frozenset(test for line in inside for test in lines[line])


def _sample(
    covering: frozenset[int], suite: Suite, config: FactoryConfig, seed: str
) -> tuple[str, ...]:
    """At most `max_tests` of them, with a total duration of at most TEST_SECONDS."""
    order = sorted(covering)
    random.Random(seed).shuffle(order)
    totals = accumulate(suite.seconds[suite.tests[number]] for number in order)
    fitting = sum(total <= TEST_SECONDS for total in totals)
    taken = order[: max(1, min(fitting, config.max_tests))]
    return tuple(suite.tests[number] for number in sorted(taken))


# Judge an edit: some tests must catch it, twice for the same reason.

PATIENCE = 5.0
"""An edit's tests may take this many times their normal duration, plus START_SECONDS."""
START_SECONDS = 10.0
MAX_TEST_SECONDS = 1.0
"""Limit in seconds for tests that are run only as extra passing tests."""
MAX_MESSAGE = 500
"""Maximum characters of a failure's message."""


class Step(StrEnum):
    """The steps that an edit must pass, in order."""

    JUDGED = "its tests leave sandbox and factory whole"
    PARSES = "still a program that parses, and shows no trace of the edit"
    LOADS = "its code and tests still compile and load"
    ENDS = "its tests end"
    FAILS = "a test fails"
    FEW_FAIL = "not too many tests fail"
    ALONE = "a test fails also if it runs alone"
    REPEATS = "the same tests fail for the same reason again"
    OTHERS_PASS = "other tests pass"
    FIXED = "its tests pass without the edit"
    EACH = "of several edits, each changes how the issue's test fails"
    TOLD = "a part of the test shows a user what should happen"
    HARD = "as hard to find as wanted"
    NEW = "no like bug before it"
    WANTED = "not more bugs of its function or project than wanted"


class Outcome(StrictRecord):
    """One candidate's way through the funnel."""

    candidate_id: str
    kind: str
    dropped_at: Step | None = None
    """None: it became a bug, before comparison with other candidates."""
    problem: str = ""
    """The error that prevented a judgement."""
    bug: LocalBug | None = None


class _Dropped(Exception):
    """A candidate does not pass this step of the funnel."""


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
            return outcome.model_copy(update={"dropped_at": dropped.args[0]})
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
        if len(candidate.tests) > 1:
            # The issue names the first test, and agents run and debug it alone.
            right = self.project.source.files
            alone = (t for t in failing if self._fails(buggy, t) and not self._fails(right, t))
            named = next(alone, None)
            if named is None:
                raise _Dropped(Step.ALONE)
            failing = (named, *(test for test in failing if test != named))
        tests = (*candidate.tests, *self._neighbours(candidate, failing))
        measured = candidate.parts, failing[0]
        second = self._run(buggy, tests, measured)
        if second.timed_out:
            raise _Dropped(Step.ENDS)
        if second.reasons != first.reasons:
            raise _Dropped(Step.REPEATS)
        passing = second.of_status(tests, TestStatus.PASSED)[: self.config.max_pass_to_pass]
        if not passing:
            raise _Dropped(Step.OTHERS_PASS)
        correct = self._run(self.project.source.files, (*failing, *passing), measured)
        if any(correct.statuses.get(t) is not TestStatus.PASSED for t in (*failing, *passing)):
            raise _Dropped(Step.FIXED)
        distance = measure_distance(second, correct, self.project.test_paths)
        if len(candidate.parts) > 1:
            distance["interacting"] = self._interact(candidate, failing, second)
        return self._record(candidate, buggy, failing, passing, replace(second, distance=distance))

    def _neighbours(self, candidate: Candidate, failing: Sequence[str]) -> list[str]:
        """Tests that don't reach the fault, first those in the failing tests' files."""
        group_of = self.workbench.group_of
        files, seconds = set(map(group_of, failing)), self.suite.seconds
        near_first = sorted(self.suite.tests, key=lambda test: group_of(test) not in files)
        short = [test for test in near_first if seconds[test] < MAX_TEST_SECONDS]
        others = [test for test in short if test not in candidate.tests]
        wanted = self.config.max_pass_to_pass - len(candidate.tests) + len(failing)
        return others[: max(wanted, 0)]

    def _interact(self, candidate: Candidate, failing: Sequence[str], run: TrialRun) -> bool:
        """Whether several edits make the first test fail in another way than each of them alone.

        Drops edits whose other failures the issue does not tell: where the first test passes, all
        must pass."""
        trees = [self.workbench.edited([part]) for part in candidate.parts]
        alone = [self._run(tree, failing).reasons for tree in trees if tree is not None]
        wrong = {test: run.reasons[test] for test in failing}
        untold = any(reasons and failing[0] not in reasons for reasons in alone)
        if len(alone) < len(trees) or wrong in alone or untold:
            raise _Dropped(Step.EACH)
        return all(reasons.get(failing[0]) != wrong[failing[0]] for reasons in alone)

    def _fails(self, files: Mapping[str, bytes], *tests: str) -> bool:
        """Whether one of the tests fails if only they run."""
        return bool(self._run(files, tests).of_status(tests, TestStatus.FAILED))

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
        seed = f"{self.config.seed}:{candidate.id}"
        issue = self.workbench.write_issue(failing, run, buggy, seed)
        if not issue:
            raise _Dropped(Step.TOLD)
        clues = Clues(issue, test_function(source.files, failing[0]), run.failure)
        ranked = rank_functions(buggy, self.project.code_paths, clues)
        difficulty = Difficulty.model_validate(
            {
                "failing_tests": len(failing),
                "covering_tests": candidate.covering,
                "reaching_tests": len(candidate.tests),
                "reading_rank": reading_rank(ranked, _places(candidate.parts)),
                **run.distance,
            }
        )
        return LocalBug(
            id=f"{source.slug}__{candidate.id}",
            repository=f"repositories/{source.slug}",
            project=source.name,
            language=self.project.language,
            problem_statement=issue,
            fail_to_pass=failing,
            pass_to_pass=passing,
            gold_patch=diff_trees(buggy, source.files),
            holds="correct",
            test_paths=self.project.test_paths,
            python=environment.python,
            packages=environment.packages,
            import_paths=environment.import_paths,
            variables=environment.variables,
            version=environment.version,
            category=edits[0].category if len(edits) == 1 else "combined",
            edits=edits,
            failure=FailureRecord(type=reason.type, message=reason.message[:MAX_MESSAGE]),
            difficulty=difficulty,
        )


# Select among the verified bugs: no two alike, and not too many in one place.


@dataclass(frozen=True)
class Selection:
    """Takes a project's outcomes in order."""

    config: FactoryConfig
    kept: list[LocalBug] = field(default_factory=list)
    dropped: Counter[Step] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    """Errors that kept candidates from being judged."""
    features: Counter[HardFeature] = field(default_factory=Counter)
    """Number of verified bugs, kept or not, with each feature."""

    @property
    def full(self) -> bool:
        """Whether there are as many bugs as requested."""
        return len(self.kept) >= self.config.bugs_per_project

    def is_crowded(self, edits: Sequence[Mutation | EditRecord]) -> bool:
        """Whether the place of one of these edits already has as many bugs as allowed."""
        taken = Counter(place for bug in self.kept for place in _places(bug.edits))
        return any(taken[place] >= self.config.bugs_per_function for place in _places(edits))

    def add(self, outcome: Outcome) -> None:
        """Keep the outcome's bug, or count the step at which it was dropped."""
        if outcome.problem:
            self.problems.append(outcome.problem)
        bug = outcome.bug
        if bug is None:
            self.dropped[outcome.dropped_at or Step.JUDGED] += 1
            return
        self.features.update(features_of(bug, self.config.difficulty))
        if not is_hard_enough(bug, self.config.difficulty):
            self.dropped[Step.HARD] += 1
        elif any(
            bug.gold_patch == other.gold_patch or _symptom(bug) == _symptom(other)
            for other in self.kept
        ):
            self.dropped[Step.NEW] += 1
        elif self.is_crowded(bug.edits) or self.full:
            self.dropped[Step.WANTED] += 1
        else:
            self.kept.append(bug)


def _places(edits: Sequence[Mutation | EditRecord]) -> set[tuple[str, str]]:
    """The file of each edit, and the qualified name of the function or class in it."""
    return {(edit.path, edit.scope) for edit in edits}


def _symptom(bug: LocalBug) -> tuple[object, ...]:
    """For a user, two edits in one place that the same tests catch in the same way are one bug."""
    return _places(bug.edits), bug.fail_to_pass, bug.failure


# One project, with its suite and the outcomes so far on disk.

WORK_FOLDER = ".work"
ADVICE = (
    "other factory or sandbox settings, or of another version of StepInto or the project; remove "
    "its folder, or choose another factory.output"
)
LATER = {"projects", "bugs_per_project", "bugs_per_function", "difficulty", "output"}
"""Settings that select among outcomes or set where they go, and don't change any."""
SHOWN_PROBLEMS = 5
"""Limit of problems shown on a project's card."""
MIN_WAVE = 8
"""Minimum number of candidates judged between checks whether there are enough bugs."""


class ProjectCard(StrictRecord):
    """The results for one project."""

    name: str
    version: str
    origin: str
    license: str
    refused: str | None = None
    """Why no bugs could be made from it."""
    notes: tuple[str, ...] = ()
    tests: int = 0
    """Number of tests that passed in both runs of the unedited project's suite."""
    edits_found: int = 0
    edits_reached: int = 0
    """Number of edits in code that tests run."""
    edits_tried: int = 0
    steps: tuple[FunnelStep, ...] = ()
    features: Mapping[HardFeature, int] = {}
    """Number of verified bugs, kept or not, with each feature that makes bugs hard to find."""
    bugs: int = 0
    seconds: float = 0.0
    """Wall time of the work over all starts of the command, with `concurrency` candidates at
    once."""

    def summary(self) -> str:
        """The results in one line."""
        if self.refused is not None:
            return f"{self.name}: nothing made: {self.refused}"
        bugs, edits = counted(self.bugs, "bug"), counted(self.edits_tried, "edit")
        took = f"{counted(self.tests, 'test')}, in {duration(self.seconds)}"
        return f"{self.name} {self.version}: {bugs} of {edits}, with {took}"


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

    def make(self, wanted: ProjectConfig) -> ProjectBugs | None:
        """A project's bugs; none if it is refused, with the reason on the card.

        None if the run was stopped before the end. Raises ConfigError if a work file has other
        settings, SandboxError.
        """
        source = Source(wanted.place, "", wanted.place, "", {})
        try:
            source = fetch(wanted, self.config)
            project = arrange(wanted, source, self.runtime.sandbox)
            self._require_hidden_code(project)
            return self._make(project)
        except ProjectRefused as refusal:
            return ProjectBugs(_card(source, refused=str(refusal)))

    def _require_hidden_code(self, project: Project) -> None:
        """Raises ProjectRefused for code that every sandbox has, unchanged, for its test runner."""
        sandbox = self.runtime.sandbox
        if project.language != "python" or sandbox.backend != "local" or sandbox.python is not None:
            return
        modules = own_modules(project.source.files, project.environment.import_paths)
        if shared := runner_modules(project.environment.python).intersection(modules):
            raise ProjectRefused(
                f"{project.source.slug}: the test runner of each sandbox needs "
                f"{first_of(sorted(shared))}, so the correct code would lie beside the bug; name "
                "another project, or an interpreter with its own pytest in sandbox.python"
            )

    def _workbench(self, project: Project) -> Workbench:
        sandbox = self.runtime.sandbox
        if project.language == "java":
            configured = for_project(sandbox, project.source.files)
            return JavaWorkbench(project, configured, self.config)
        return PythonWorkbench(project, sandbox, self.config)

    def _make(self, project: Project) -> ProjectBugs | None:
        work = self.folder / WORK_FOLDER / project.source.slug
        outcomes = self._work_file(project, work)
        workbench = self._workbench(project)
        suite_file = work.with_name(f"{work.name}.suite.json")
        clock = work.with_name(f"{work.name}.seconds")
        earlier = float(clock.read_text()) if clock.is_file() else 0.0
        began = time.monotonic()
        try:
            if suite_file.is_file():
                suite = Suite.model_validate_json(suite_file.read_text("utf-8"))
            else:
                suite = workbench.run_suite()
                write_text(suite_file, suite.model_dump_json())
            candidates = find_candidates(project, suite, self.config)
            judge = Judge(project, suite, workbench, self.config)
            selection = self._select(judge, candidates.chosen, outcomes)
        except ProjectRefused:
            if not suite_file.is_file():
                # Nothing was made, so that a start with other settings may go on.
                outcomes.remove()
            raise
        finally:
            seconds = earlier + time.monotonic() - began
            write_text(clock, str(seconds))
        if self.stop.is_set():
            return None
        unread = [f"not parsed: {', '.join(candidates.unread)}"] if candidates.unread else []
        tried = sum(selection.dropped.values()) + len(selection.kept)
        card = _card(
            project.source,
            notes=(*project.notes, *unread, *selection.problems[:SHOWN_PROBLEMS]),
            tests=len(suite.tests),
            edits_found=candidates.found,
            edits_reached=candidates.reached,
            edits_tried=tried,
            steps=funnel(Step, selection.dropped, tried),
            features=selection.features,
            bugs=len(selection.kept),
            seconds=seconds,
        )
        return ProjectBugs(card, selection.kept, project.source.files)

    def _work_file(self, project: Project, path: Path) -> WorkFile[Outcome]:
        """The outcomes of earlier runs. Raises ConfigError if they are of other settings."""
        path.parent.mkdir(parents=True, exist_ok=True)
        environment = project.environment
        settings = {
            "factory": self.config.model_dump(mode="json", exclude=LATER),
            "sandbox": self.runtime.sandbox.model_dump(mode="json"),
            "project": [project.source.origin, repr(environment), environment.python],
            "paths": [project.test_paths, project.code_paths],
            "code": code_version(),
        }
        return WorkFile(
            path, digest(settings), Outcome, lambda outcome: outcome.candidate_id, ADVICE
        )

    def _select(
        self, judge: Judge, candidates: Sequence[Candidate], work: WorkFile[Outcome]
    ) -> Selection:
        """Judge wave after wave, until there are enough bugs or no candidates are left.

        Skips edits in places that already have enough bugs.
        """
        selection = Selection(self.config)
        size = max(MIN_WAVE, self.config.bugs_per_project // 2)
        name, wanted = judge.project.source.name, counted(self.config.bugs_per_project, "bug")
        with ProgressBar(f"edits of {name}, until {wanted}", len(candidates)) as bar:

            def judge_one(candidate: Candidate) -> None:
                if candidate.id not in work.outcomes:
                    work.add(judge.judge(candidate))
                bar.advance()

            for start in range(0, len(candidates), size):
                whole = candidates[start : start + size]
                wave = [each for each in whole if not selection.is_crowded(each.parts)]
                run_in_threads(wave, judge_one, self.runtime.runner.concurrency, self.stop)
                if self.stop.is_set():
                    break
                for candidate in wave:
                    selection.add(work.outcomes[candidate.id])
                if selection.full:
                    break
        return selection


def _card(source: Source, **results: object) -> ProjectCard:
    names = ("name", "version", "origin", "license")
    return ProjectCard.model_validate({name: getattr(source, name) for name in names} | results)


# All projects.

CARD_FILE = "card.json"


class Card(StrictRecord):
    """How a folder of bugs was made."""

    bugs: int
    projects: tuple[ProjectCard, ...]
    steps: tuple[FunnelStep, ...]
    concurrency: int
    seconds: float
    settings: Mapping[str, object]
    """The config's `factory` section."""
    versions: Mapping[str, str]

    @property
    def bugs_per_hour(self) -> float:
        """Bugs per hour of wall time."""
        return 3600 * self.bugs / self.seconds if self.seconds else 0.0


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
    """Make the folder, in the run's folder unless the config names another place. One that is
    finished with these settings stays as it is.

    An unusable project is on the card with the reason. Raises ConfigError if all are unusable, or
    if the folder has bugs of other settings; SandboxError.
    """
    check_factory(config)
    folder = run / "factory" if config.output is None else Path(config.output)
    folder.mkdir(parents=True, exist_ok=True)
    console = VisibleConsole(stderr=True)
    earlier = read_card(folder / BUGS_FILE, folder / CARD_FILE, Card)
    if earlier is not None and earlier.settings == config.model_dump(mode="json"):
        told = f"{folder} is finished; remove it to make the bugs again"
        console.print(told, markup=False, soft_wrap=True)
        return Made(folder, earlier)
    if (folder / BUGS_FILE).exists():
        raise ConfigError(
            f"{folder} has bugs that were made with other settings, or by another release: choose "
            "another `run` name (or factory.output), or remove the folder if nothing needs them"
        )
    clean_up(runtime.sandbox)
    maker = ProjectMaker(runtime, config, folder, threading.Event())
    done: list[ProjectBugs] = []
    for wanted in config.projects:
        told = f"{wanted.place}: fetching it and running its tests"
        console.print(told, markup=False, highlight=False)
        made = maker.make(wanted)
        if made is None:
            return Made(folder, None)
        done.append(made)
        console.print(made.card.summary(), markup=False, highlight=False)
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
    dropped: Counter[Step] = Counter()
    for made in done:
        dropped.update({Step(step.name): step.dropped for step in made.card.steps})
    return Card(
        bugs=sum(made.card.bugs for made in done),
        projects=tuple(made.card for made in done),
        steps=funnel(Step, dropped, sum(made.card.edits_tried for made in done)),
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


def yield_table(card: Card) -> Table:
    """One row per project: the edits tried, the bugs verified, and of these those with each feature
    that makes bugs hard to find."""
    table = Table(title="verified bugs")
    table.add_column("project", overflow="fold")
    for column in ("tried", "verified", *HardFeature, "kept"):
        table.add_column(column.replace("_", " "), justify="right")
    for project in card.projects:
        verified = sum(step.remaining for step in project.steps if step.name == Step.TOLD)
        counts = [project.features.get(feature, 0) for feature in HardFeature]
        table.add_row(
            project.name, *map(str, (project.edits_tried, verified, *counts, project.bugs))
        )
    return table
