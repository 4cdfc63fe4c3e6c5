"""Builds a file of runtime questions by investigating every bug, then writes its card.

Outcomes are appended to a work file as they come, so that a killed run can resume.
"""

from __future__ import annotations

import platform
import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from rich.table import Table

from collect.benchmarks.base import Benchmark, Instance, TestStatus
from collect.benchmarks.opening import open_benchmark, select_instances
from collect.benchmarks.workspace import open_instance_sandbox
from collect.code.patches import PatchError, apply_patch, changed_lines, changed_paths, diff_trees
from collect.code.source import function_at, read_source
from collect.config import RuntimeConfig
from collect.errors import InfrastructureFailure
from collect.quantities import counted
from collect.question_records import Card, Category, CategoryCard, Drop, Question, write_questions
from collect.questions.choosing import Chooser
from collect.questions.config import ANSWERING, QuestionsConfig
from collect.questions.episode import lay_out, reproducible
from collect.questions.program import Program
from collect.questions.rows import Answered
from collect.questions.tracing import Runs, Trace, trace_test
from collect.rollouts.progress_bar import ProgressBar
from collect.store.record_lines import WorkFile
from collect.store.records import code_version, digest
from collect.threads import run_in_threads
from sandbox import SandboxConfig, clean_up
from sandbox.debugger import DebugLimits, open_debugger
from sandbox.errors import SandboxError, SandboxUnavailable

LIMITS = DebugLimits(value_chars=400, max_frames=60)
DEFAULT_NAME = "questions.jsonl"
ADVICE = "another questions or sandbox section; remove it, or choose another questions.output"
SHORT = {
    Drop.UNREADABLE: "not comparable",
    Drop.NONDETERMINISTIC: "nondeterministic",
    Drop.ON_SOURCE: "readable off the source",
    Drop.DUPLICATE: "duplicate",
    Drop.UNBALANCED: "unbalanced",
    Drop.LIMIT: "over limit",
}


class NoQuestions(Exception):
    """Why nothing can be asked about a bug."""


class Outcome(BaseModel):
    """The result for one bug."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    instance_id: str
    instance_hash: str
    questions: tuple[Question, ...] = ()
    asked: dict[Category, int] = {}
    dropped: dict[Category, dict[Drop, int]] = {}
    without: str | None = None
    """Why there are no questions."""


@dataclass(frozen=True)
class Built:
    """The result of one start."""

    path: Path
    card: Card | None
    """None if the run was stopped before its end."""


@dataclass(frozen=True)
class Investigator:
    """Investigates a bug of a benchmark; each test runs twice in fresh sandboxes."""

    benchmark: Benchmark
    sandbox: SandboxConfig
    config: QuestionsConfig
    instance: Instance

    def outcome(self) -> Outcome:
        """The bug's questions and funnel; a broken sandbox loses only this bug.

        Raises SandboxUnavailable.
        """
        about = Outcome(instance_id=self.instance.id, instance_hash=self.instance.hash)
        try:
            chooser = self.chooser()
        except SandboxUnavailable:
            raise
        except NoQuestions as reason:
            return about.model_copy(update={"without": str(reason)})
        except SandboxError as error:
            return about.model_copy(update={"without": f"{type(error).__name__}: {error}"})
        questions = chooser.questions()
        found = {
            "questions": tuple(questions),
            "asked": dict(chooser.asked),
            "dropped": {category: dict(counts) for category, counts in chooser.dropped.items()},
            "without": None if questions else "nothing that could be asked has passed the rules",
        }
        return about.model_copy(update=found)

    def chooser(self) -> Chooser:
        """Everything worth asking about the bug. Raises NoQuestions, SandboxError."""
        bug, files = self.instance, self.instance.files
        if not files:
            with open_instance_sandbox(self.sandbox, bug) as sandbox:
                self.benchmark.prepare(bug, sandbox)
                files = sandbox.read_tree()
        program = Program(bug, files)
        if not program.modules:
            raise NoQuestions("no source file in a language that is traced")
        failing = [test for test in bug.fail_to_pass if test in bug.public_tests]
        tests = failing[: self.config.max_tests]
        traced = [runs for test in tests if (runs := self._runs(program, test))]
        if not traced:
            raise NoQuestions("no failing test comes to its end under the debugger")
        chooser = Chooser(bug, self.config)
        for runs in traced:
            chooser.add_runs(runs)
        if bug.gold_patch:
            wrong = list(wrong_patches(bug, files))
            random.Random(f"{self.config.seed}\0{bug.id}").shuffle(wrong)
            for patch in (bug.gold_patch, *wrong[: self.config.wrong_patches]):
                self._add_fix(chooser, files, traced[0].test, patch)
        return chooser

    def _runs(self, program: Program, test: str, patch: str = "") -> Runs | None:
        """Two traces, or None if one does not end."""
        try:
            first, second = (self._trace(program, test, patch) for _ in range(2))
        except InfrastructureFailure:
            return None
        return Runs(test, program, first, second, patch) if first.ended and second.ended else None

    def _trace(self, program: Program, test: str, patch: str) -> Trace:
        files = changed_paths(patch) if patch else None
        with open_instance_sandbox(self.sandbox, self.instance) as sandbox:
            lay_out(self.benchmark, self.instance, sandbox, patch)
            with closing(open_debugger(self.instance.language, sandbox, LIMITS)) as debugger:
                return trace_test(debugger, program, test, self.config.test_timeout, files)

    def _add_fix(self, chooser: Chooser, files: Mapping[str, bytes], test: str, patch: str) -> None:
        """Ask about a changed program, if the change applies and the test then ends."""
        status = TestStatus.PASSED
        try:
            program = Program(self.instance, apply_patch(files, patch))
            if patch != self.instance.gold_patch:
                with open_instance_sandbox(self.sandbox, self.instance) as sandbox:
                    lay_out(self.benchmark, self.instance, sandbox, patch)
                    tested = self.benchmark.run_tests(self.instance, sandbox, [test])
                    status = tested.statuses[test]
        except PatchError:
            return
        if status in (TestStatus.PASSED, TestStatus.FAILED):
            runs = self._runs(program, test, patch)
            if runs is not None:
                chooser.add_fix(runs, status is TestStatus.PASSED)


def wrong_patches(instance: Instance, files: Mapping[str, bytes]) -> Iterator[str]:
    """Patches of the function that the gold patch changes, each with a different small edit."""
    try:
        fixed = apply_patch(files, instance.gold_patch)
    except PatchError:
        return
    seen: set[str] = set()
    for changed in changed_lines(instance.gold_patch):
        source = read_source(changed.path, files[changed.path])
        function = function_at(source, changed.end) if source is not None else None
        if source is None or function is None or function.name in seen:
            continue
        seen.add(function.name)
        for mutation in source.mutations(function):
            text = mutation.text.encode()
            if text != fixed.get(changed.path):
                yield diff_trees({changed.path: files[changed.path]}, {changed.path: text})


def questions_path(config: QuestionsConfig, run: Path) -> Path:
    """The path of a config's questions."""
    return Path(config.output) if config.output is not None else run / DEFAULT_NAME


def build(runtime: RuntimeConfig, config: QuestionsConfig, run: Path) -> Built:
    """Build the file, in the run's folder unless the config names another place.

    Raises ConfigError, SandboxError.
    """
    runtime = reproducible(runtime)
    benchmark = open_benchmark(config.benchmark, runtime.sandbox)
    instances = select_instances(config.benchmark, benchmark)
    path = questions_path(config, run)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Everything that decides a bug's outcome. The set of bugs may change.
    settings = {
        "questions": config.model_dump(mode="json", exclude={*ANSWERING, "benchmark"}),
        "benchmark": config.benchmark.name,
        "test_timeout": config.benchmark.test_timeout,
        "sandbox": runtime.sandbox.model_dump(mode="json"),
        "code": code_version(),
    }
    work = WorkFile(path, digest(settings), Outcome, lambda each: each.instance_hash, ADVICE)
    missing = [instance for instance in instances if instance.hash not in work.outcomes]
    if missing:
        clean_up(runtime.sandbox)
        with ProgressBar("bugs", len(instances), len(instances) - len(missing)) as bar:

            def investigate(instance: Instance) -> None:
                work.add(Investigator(benchmark, runtime.sandbox, config, instance).outcome())
                bar.advance()

            concurrency = runtime.runner.concurrency
            run_in_threads(missing, investigate, concurrency, threading.Event())
    done = [work.outcomes[each.hash] for each in instances if each.hash in work.outcomes]
    if len(done) < len(instances):
        return Built(path, None)
    card = _card(config, done)
    write_questions(path, [question for each in done for question in each.questions], card)
    work.remove()
    return Built(path, card)


def _card(config: QuestionsConfig, outcomes: Sequence[Outcome]) -> Card:
    questions = [question for outcome in outcomes for question in outcome.questions]
    kept = Counter(question.category for question in questions)
    categories = {}
    for category in Category:
        dropped = [outcome.dropped.get(category, {}) for outcome in outcomes]
        categories[category] = CategoryCard(
            asked=sum(outcome.asked.get(category, 0) for outcome in outcomes),
            dropped={why: sum(counts.get(why, 0) for counts in dropped) for why in Drop},
            questions=kept[category],
        )
    return Card(
        benchmark=config.benchmark.name,
        instances=len(outcomes),
        without=Counter(outcome.without for outcome in outcomes if outcome.without),
        questions=len(questions),
        categories=categories,
        seed=config.seed,
        per_category=config.per_category,
        versions={"stepinto": code_version(), "python": platform.python_version()},
    )


def funnel_table(card: Card) -> Table:
    """One line per category: possible questions, the drops by reason, and what is left."""
    bugs = counted(card.instances, "bug")
    table = Table(title=f"{counted(card.questions, 'question')} about {bugs}")
    table.add_column("category", no_wrap=True)
    table.add_column("asked", justify="right")
    table.add_column("dropped as")
    table.add_column("questions", justify="right")
    for category, counts in card.categories.items():
        dropped = [f"{SHORT[why]} {count}" for why, count in counts.dropped.items() if count]
        row = (str(counts.asked), ", ".join(dropped) or "-", str(counts.questions))
        table.add_row(category, *row)
    return table


def score_table(answered: Sequence[Answered], by: str) -> Table:
    """Accuracy by category and overall, and why wrong answers are wrong."""
    right = sum(each.verdict.correct for each in answered)
    share = f"{right / len(answered):.1%}" if answered else "-"
    table = Table(title=f"{by}: {right} of {len(answered)} right ({share})")
    table.add_column("category", no_wrap=True)
    for column in ("questions", "right", "accuracy", "facts", "steps"):
        table.add_column(column, justify="right")
    table.add_column("wrong because", overflow="fold")
    for category in (*Category, None):
        group = [each for each in answered if category in (None, each.question.category)]
        if not group:
            continue
        wrong = [each.verdict.reason for each in group if not each.verdict.correct]
        reasons = [f"{reason} {count}" for reason, count in Counter(wrong).most_common()]
        table.add_row(
            category or "all",
            str(len(group)),
            str(len(group) - len(wrong)),
            f"{1 - len(wrong) / len(group):.1%}",
            f"{sum(each.verdict.share for each in group) / len(group):.0%}",
            f"{sum(each.steps for each in group) / len(group):.1f}",
            ", ".join(reasons) or "-",
            style=None if category else "bold",
        )
    return table
