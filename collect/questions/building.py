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
from collect.questions.choosing import Chooser, Funnel
from collect.questions.config import ANSWERING, QuestionsConfig
from collect.questions.episode import lay_out, reproducible, with_files
from collect.questions.program import Program
from collect.questions.rows import Answered
from collect.questions.tracing import Trace, Tracer
from collect.questions.writing import Runs
from collect.rollouts.progress_bar import ProgressBar
from collect.store.build_info import code_version, digest
from collect.store.work_file import WorkFile
from collect.threads import run_in_threads
from sandbox import SandboxConfig, clean_up
from sandbox.debugger import DebugLimits
from sandbox.debugger.opening import open_debugger
from sandbox.errors import SandboxError, SandboxUnavailable

# One bug's questions: each test runs twice in fresh sandboxes, also with patches.


LIMITS = DebugLimits(value_chars=400, max_frames=60)


class NoQuestions(Exception):
    """Why nothing can be asked about a bug."""


@dataclass(frozen=True)
class Investigator:
    """Investigates bugs of one benchmark. Thread-safe."""

    benchmark: Benchmark
    sandbox: SandboxConfig
    config: QuestionsConfig

    def questions(self, instance: Instance, funnel: Funnel) -> list[Question]:
        """All questions worth asking about a bug. Raises NoQuestions, SandboxError."""
        files = self._files(instance)
        program = Program.of(instance, files)
        if not program.modules:
            raise NoQuestions("no source file in a language that is traced")
        chooser = Chooser(instance, self.config, funnel)
        failing = [test for test in instance.fail_to_pass if test in instance.public_tests][
            : self.config.max_tests
        ]
        traced = [runs for test in failing if (runs := self._runs(instance, program, test))]
        if not traced:
            raise NoQuestions("no failing test comes to its end under the debugger")
        for runs in traced:
            chooser.add_runs(runs)
        for patch in self._patches(instance, files):
            self._add_fix(chooser, instance, files, traced[0].test, patch)
        return chooser.questions()

    def _files(self, instance: Instance) -> Mapping[str, bytes]:
        if instance.files:
            return instance.files
        with open_instance_sandbox(self.sandbox, instance) as sandbox:
            self.benchmark.prepare(instance, sandbox)
            return sandbox.read_tree()

    def _runs(
        self, instance: Instance, program: Program, test: str, patch: str = ""
    ) -> Runs | None:
        """Two traces, or None if one does not end."""
        try:
            first = self._trace(instance, program, test, patch)
            second = self._trace(instance, program, test, patch)
        except InfrastructureFailure:
            return None
        if first.ending is None or second.ending is None:
            return None
        return Runs(test, program, first, second, patch)

    def _trace(self, instance: Instance, program: Program, test: str, patch: str) -> Trace:
        files = changed_paths(patch) if patch else None
        with open_instance_sandbox(self.sandbox, instance) as sandbox:
            lay_out(self.benchmark, instance, sandbox, patch)
            tracer = Tracer(program, self.config.test_timeout)
            with closing(open_debugger(instance.language, sandbox, LIMITS)) as debugger:
                return tracer.trace(debugger, test, files)

    def _add_fix(
        self,
        chooser: Chooser,
        instance: Instance,
        files: Mapping[str, bytes],
        test: str,
        patch: str,
    ) -> None:
        """Ask about a changed program, if the change applies and the test then ends."""
        try:
            program = Program.of(instance, with_files(instance, files, patch).files)
            status = self._status(instance, test, patch)
        except PatchError:
            return
        if status not in (TestStatus.PASSED, TestStatus.FAILED):
            return
        runs = self._runs(instance, program, test, patch)
        if runs is not None:
            chooser.add_fix(runs, status is TestStatus.PASSED)

    def _status(self, instance: Instance, test: str, patch: str) -> TestStatus:
        """How the test ends without a debugger; the gold patch's effect is known."""
        if patch == instance.gold_patch:
            return TestStatus.PASSED
        with open_instance_sandbox(self.sandbox, instance) as sandbox:
            lay_out(self.benchmark, instance, sandbox, patch)
            return self.benchmark.run_tests(instance, sandbox, [test]).statuses[test]

    def _patches(self, instance: Instance, files: Mapping[str, bytes]) -> Iterator[str]:
        """The gold patch, and wrong patches of the same function."""
        if not instance.gold_patch:
            return
        yield instance.gold_patch
        wrong = list(wrong_patches(instance, files))
        random.Random(f"{self.config.seed}\0{instance.id}").shuffle(wrong)
        yield from wrong[: self.config.wrong_patches]


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


DEFAULT_NAME = "questions.jsonl"
ADVICE = "another questions or sandbox section; remove it, or choose another questions.output"


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
    settings = _settings(runtime, config)
    work = WorkFile(path, settings, Outcome, lambda outcome: outcome.instance_hash, ADVICE)
    _investigate(runtime, config, benchmark, instances, work)
    done = [work.outcomes[each.hash] for each in instances if each.hash in work.outcomes]
    if len(done) < len(instances):
        return Built(path, None)
    questions = [question for outcome in done for question in outcome.questions]
    card = _card(config, done)
    write_questions(path, questions, card)
    work.remove()
    return Built(path, card)


def _investigate(
    runtime: RuntimeConfig,
    config: QuestionsConfig,
    benchmark: Benchmark,
    instances: Sequence[Instance],
    work: WorkFile[Outcome],
) -> None:
    missing = [instance for instance in instances if instance.hash not in work.outcomes]
    if not missing:
        return
    clean_up(runtime.sandbox)
    investigator = Investigator(benchmark, runtime.sandbox, config)
    with ProgressBar("bugs", len(instances), len(instances) - len(missing)) as bar:

        def investigate(instance: Instance) -> None:
            work.add(outcome_of(investigator, instance))
            bar.advance()

        stop = threading.Event()
        run_in_threads(missing, investigate, runtime.runner.concurrency, stop)


def outcome_of(investigator: Investigator, instance: Instance) -> Outcome:
    """One bug's questions and funnel; a broken sandbox loses only this bug.

    Raises SandboxUnavailable.
    """
    funnel = Funnel()
    try:
        questions = investigator.questions(instance, funnel)
    except NoQuestions as reason:
        return _without(instance, str(reason))
    except SandboxUnavailable:
        raise
    except SandboxError as error:
        return _without(instance, f"{type(error).__name__}: {error}")
    dropped: dict[Category, dict[Drop, int]] = {}
    for (category, why), count in funnel.dropped.items():
        dropped.setdefault(category, {})[why] = count
    return Outcome(
        instance_id=instance.id,
        instance_hash=instance.hash,
        questions=tuple(questions),
        asked=dict(funnel.asked),
        dropped=dropped,
        without=None if questions else "nothing that could be asked has passed the rules",
    )


def _without(instance: Instance, reason: str) -> Outcome:
    return Outcome(instance_id=instance.id, instance_hash=instance.hash, without=reason)


def _settings(runtime: RuntimeConfig, config: QuestionsConfig) -> str:
    """A hash of everything that decides a bug's outcome. The set of bugs may change."""
    facts = {
        "questions": config.model_dump(mode="json", exclude={*ANSWERING, "benchmark"}),
        "benchmark": config.benchmark.name,
        "test_timeout": config.benchmark.test_timeout,
        "sandbox": runtime.sandbox.model_dump(mode="json"),
        "code": code_version(),
    }
    return digest(facts)


def _card(config: QuestionsConfig, outcomes: Sequence[Outcome]) -> Card:
    asked: Counter[Category] = Counter()
    kept: Counter[Category] = Counter()
    dropped: dict[Category, Counter[Drop]] = {category: Counter() for category in Category}
    for outcome in outcomes:
        asked.update(outcome.asked)
        kept.update(question.category for question in outcome.questions)
        for category, reasons in outcome.dropped.items():
            dropped[category].update(reasons)
    return Card(
        benchmark=config.benchmark.name,
        instances=len(outcomes),
        without=Counter(outcome.without for outcome in outcomes if outcome.without),
        questions=sum(kept.values()),
        categories={
            category: CategoryCard(
                asked=asked[category],
                dropped={why: dropped[category][why] for why in Drop},
                questions=kept[category],
            )
            for category in Category
        },
        seed=config.seed,
        per_category=config.per_category,
        versions={"stepinto": code_version(), "python": platform.python_version()},
    )


# Tables that the commands print.


SHORT = {
    Drop.UNREADABLE: "not comparable",
    Drop.NONDETERMINISTIC: "nondeterministic",
    Drop.ON_SOURCE: "readable off the source",
    Drop.DUPLICATE: "duplicate",
    Drop.UNBALANCED: "unbalanced",
    Drop.LIMIT: "over limit",
}


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
    table = Table(title=f"{by}: {right} of {len(answered)} right ({_share(right, len(answered))})")
    table.add_column("category", no_wrap=True)
    for column in ("questions", "right", "accuracy", "facts", "steps"):
        table.add_column(column, justify="right")
    table.add_column("wrong because", overflow="fold")
    for category in Category:
        group = [each for each in answered if each.question.category is category]
        if group:
            table.add_row(category, *_cells(group))
    table.add_row("all", *_cells(answered), style="bold")
    return table


def _cells(group: Sequence[Answered]) -> list[str]:
    right = sum(each.verdict.correct for each in group)
    facts = sum(each.verdict.share for each in group) / max(len(group), 1)
    steps = sum(each.steps for each in group) / max(len(group), 1)
    reasons = Counter(each.verdict.reason for each in group if not each.verdict.correct)
    return [
        str(len(group)),
        str(right),
        _share(right, len(group)),
        f"{facts:.0%}",
        f"{steps:.1f}",
        ", ".join(f"{reason} {count}" for reason, count in reasons.most_common()) or "-",
    ]


def _share(right: int, total: int) -> str:
    return f"{right / total:.1%}" if total else "-"
