"""The eval stage of subagents alone, on runtime questions: its metrics, tables and figures."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import combinations
from pathlib import Path
from typing import Any

from collect.benchmarks.base import Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.held_out import RepositoryNames
from collect.benchmarks.opening import drawn, open_chosen
from collect.config import RuntimeConfig
from collect.errors import ConfigError
from collect.models.config import LocalConfig, ModelConfig, VllmConfig, trained_on
from collect.preflight import Finding
from collect.quantities import counted
from collect.question_records import (
    ANSWERING,
    SOURCE_READER,
    Category,
    Question,
    QuestionsConfig,
    read_questions,
)
from collect.questions.answering import answer_all, instances_of, look_before_answers
from collect.questions.asking import VARIANT, Answered
from collect.questions.building import DEFAULT_NAME, build, questions_path
from collect.questions.scoring import Reason
from collect.questions.source_reader import read_all
from collect.store.records import ORACLE_TEACHER
from collect.store.run_store import RunStore
from eval.config import AloneConfig, StatisticsConfig
from eval.figures import (
    Figure,
    Point,
    Record,
    Series,
    TablePaths,
    notes,
    parts,
    table,
    write_results,
)
from eval.metrics import (
    MISSING,
    Arm,
    Facts,
    Labels,
    cluster_of,
    clustered_wilson,
    counts,
    decimal,
    dollars,
    mean,
    percent,
    ratio,
    span,
    tokens,
)
from eval.paired import Bug, PairedReport, Standing, paired_facts, paired_parts, paired_records
from eval.qualitative.judge import CATEGORIES
from eval.qualitative.study import answer_records, study

FORMAT_REPORT = Path("sft", "report.json")
"""The format stage's report on the splits, in a run's folder."""


def trained_repositories(run: Path, models: Iterable[ModelConfig]) -> set[str]:
    """The repositories of the run's train split, and those that its models declare as training
    data."""
    found: set[str] = set()
    path = run / FORMAT_REPORT
    if path.is_file():
        report = json.loads(path.read_text(encoding="utf-8"))
        found.update(report["splits"]["train"]["repositories"])
    for config in models:
        if isinstance(config, LocalConfig | VllmConfig):
            found.update(*map(trained_on, config.folders))
    return found


@dataclass(frozen=True)
class ModelAnswers:
    model: str
    """`source_reader` for the reader of the source, which runs nothing."""
    answered: tuple[Answered, ...]
    missing: int = 0
    """Questions without a verdict: an infrastructure or budget failure, or not asked yet."""

    @property
    def arm(self) -> Arm:
        return Arm(VARIANT, "", self.model)

    @property
    def scripted(self) -> bool:
        rows = (each.rollout for each in self.answered)
        return any(row is not None and row.teacher == ORACLE_TEACHER for row in rows)


@dataclass(frozen=True)
class Accuracy:
    questions: int
    right: int
    percent: float
    low: float
    """95 % Wilson interval in percent, clustered by bug or repository."""
    high: float


@dataclass(frozen=True)
class AloneMetrics:
    """The numbers of one model. None if there is nothing to average over."""

    model: str
    scripted: bool
    questions: int
    """Questions for which all models have a verdict; the base of all following fields."""
    instances: int
    """Number of bugs in these questions."""
    missing: int
    """Questions for which this model has no verdict."""
    right: int
    accuracy: float | None
    """Percent of right answers."""
    accuracy_low: float | None
    """95 % Wilson interval in percent, clustered by bug or repository."""
    accuracy_high: float | None
    categories: Mapping[Category, Accuracy]
    well_formed: float | None
    """Percent of answers with a well-formed answer block."""
    grounded: float | None
    """Percent of answers with claims whose every claim was observed in the conversation, except
    claims that the task stated."""
    tool_calls: int
    invalid_calls: int
    """Calls not executed: no such tool, or arguments that don't match its schema."""
    refused_calls: int
    """Calls not executed: the debugger's state or the tool limit did not allow them."""
    valid_calls: float | None
    """Percent of calls that were neither invalid nor refused."""
    steps: float | None
    """Average completions per question."""
    tokens: float | None
    """Average input and output tokens per question."""
    seconds: float | None
    """Average wall time per question, including the sandbox's start."""
    dollars: float | None
    """Total over all questions."""
    dollars_per_question: float | None
    reasons: Mapping[str, int]
    """Wrong answers by reason."""

    @property
    def is_source_reader(self) -> bool:
        return self.model == SOURCE_READER

    def name(self, labels: Labels) -> str:
        return labels.models(Arm(VARIANT, "", self.model), self.scripted)

    def facts(self) -> Facts:
        """The metrics as plain numbers, without categories and reasons."""
        names = [each.name for each in fields(self) if each.name not in ("categories", "reasons")]
        return {name: getattr(self, name) for name in names}


def shared_questions(models: Sequence[ModelAnswers]) -> frozenset[str]:
    """The ids of the questions for which all models have a verdict.

    A model without any verdict is listed, but does not affect the choice.
    """
    asked = [frozenset(each.question.id for each in model.answered) for model in models]
    asked = [ids for ids in asked if ids]
    return frozenset.intersection(*asked) if asked else frozenset()


def alone_metrics(
    model: ModelAnswers, questions: Collection[str], cluster: str = "bug"
) -> AloneMetrics:
    """The metrics of one model over the given questions."""
    answers = [each for each in model.answered if each.question.id in questions]
    rows = [each.rollout for each in answers if each.rollout is not None]
    right = sum(each.verdict.correct for each in answers)
    calls = sum(each.tool_calls for each in answers)
    invalid = sum(row.invalid_tool_calls for row in rows)
    refused = sum(row.refused_tool_calls for row in rows)
    formed = sum(each.verdict.reason is not Reason.NO_ANSWER for each in answers)
    claiming = [each.grounding for each in answers if each.grounding is not None]
    spent = sum(row.dollars for row in rows)
    by_category: dict[Category, list[Answered]] = {category: [] for category in Category}
    for each in answers:
        by_category[each.question.category].append(each)
    overall = accuracy(answers, cluster)
    found = {category: accuracy(group, cluster) for category, group in by_category.items()}
    return AloneMetrics(
        model=model.model,
        scripted=model.scripted,
        questions=len(answers),
        instances=len({bug_of(each) for each in answers}),
        missing=model.missing,
        right=right,
        accuracy=percent(right, len(answers)),
        accuracy_low=overall.low if overall else None,
        accuracy_high=overall.high if overall else None,
        categories={category: each for category, each in found.items() if each is not None},
        well_formed=None if model.model == SOURCE_READER else percent(formed, len(answers)),
        grounded=percent(sum(share == 1 for share in claiming), len(claiming)),
        tool_calls=calls,
        invalid_calls=invalid,
        refused_calls=refused,
        valid_calls=percent(calls - invalid - refused, calls),
        steps=mean([row.sub_steps for row in rows]),
        tokens=mean([row.sub_tokens for row in rows]),
        seconds=mean([row.seconds for row in rows]),
        dollars=spent if rows else None,
        dollars_per_question=ratio(spent, len(rows)),
        reasons=Counter(each.verdict.reason.value for each in answers if not each.verdict.correct),
    )


def accuracy(answers: Sequence[Answered], cluster: str) -> Accuracy | None:
    if not answers:
        return None
    clusters: dict[Any, list[bool]] = defaultdict(list)
    for each in answers:
        clusters[cluster_of(bug_of(each), cluster)].append(each.verdict.correct)
    low, high = clustered_wilson(clusters.values())
    right = sum(each.verdict.correct for each in answers)
    return Accuracy(len(answers), right, 100 * right / len(answers), 100 * low, 100 * high)


def bug_of(answer: Answered) -> Bug:
    question = answer.question
    return question.benchmark, question.instance_id, question.repository


def paired_answers(models: Sequence[ModelAnswers], config: StatisticsConfig) -> PairedReport:
    """Each model against the baseline and the frontier model that the config names.

    If the config names none that answered, every model against every other. The source reader is
    compared only if it is named. `comparisons` is for arms with a main agent, and is ignored here.
    """
    outcomes: dict[Arm, dict[Bug, dict[str, bool]]] = {}
    for model in models:
        bugs = outcomes.setdefault(model.arm, {})
        for each in model.answered:
            bugs.setdefault(bug_of(each), {})[each.question.id] = each.verdict.correct
    named = (config.baseline, config.frontier)
    arms = [m.arm for m in models if m.model != SOURCE_READER or m.model in named]
    standing = Standing(arms, config, VARIANT)
    pairs = standing.pairs() or list(combinations(standing.arms, 2))
    scripted = [model.arm for model in models if model.scripted]
    return standing.report(outcomes, pairs, scripted, trial="question")


@dataclass(frozen=True)
class AloneResults:
    models: tuple[AloneMetrics, ...]
    paired: PairedReport = field(default_factory=PairedReport)
    notes: tuple[str, ...] = ()
    """Notes on this evaluation for readers."""


COLUMNS: dict[str, Callable[[AloneMetrics], str]] = {
    "Questions": lambda m: str(m.questions),
    "Right": lambda m: str(m.right) if m.questions else MISSING,
    "Accuracy %": lambda m: decimal(m.accuracy),
    "95 %": lambda m: span(m.accuracy_low, m.accuracy_high),
    "Answer block %": lambda m: decimal(m.well_formed),
    "Grounded %": lambda m: decimal(m.grounded),
    "Valid calls %": lambda m: decimal(m.valid_calls),
    "Invalid": lambda m: MISSING if m.is_source_reader else f"{m.invalid_calls} of {m.tool_calls}",
    "Refused": lambda m: MISSING if m.is_source_reader else f"{m.refused_calls} of {m.tool_calls}",
    "Steps": lambda m: decimal(m.steps),
    "Tokens": lambda m: tokens(m.tokens),
    "Seconds": lambda m: decimal(m.seconds, "{:.2f}s"),
    "$ total": lambda m: dollars(m.dollars),
    "$/question": lambda m: dollars(m.dollars_per_question),
    "No verdict": lambda m: str(m.missing),
}
"""The columns of the table of models."""


def models_table(models: Sequence[AloneMetrics], labels: Labels) -> list[list[str]]:
    rows = [["Model", *COLUMNS]]
    return rows + [[m.name(labels), *(text(m) for text in COLUMNS.values())] for m in models]


def categories_table(models: Sequence[AloneMetrics], labels: Labels) -> list[list[str]]:
    """One row per category, one column per model: accuracy in percent, with its interval."""
    rows = [["Category", "Questions", *(m.name(labels) for m in models)]]
    for category in Category:
        asked, cells = 0, []
        for found in (m.categories.get(category) for m in models):
            asked = max(asked, found.questions if found else 0)
            interval = span(found.low, found.high) if found else ""
            cells.append(f"{found.percent:.1f} ({interval})" if found else MISSING)
        if asked:
            rows.append([category.value, str(asked), *cells])
    return rows


def alone_parts(results: AloneResults, labels: Labels) -> list[str]:
    parts = [
        "## Subagents alone, on runtime questions",
        table(models_table(results.models, labels)),
        "### Accuracy by category",
        table(categories_table(results.models, labels)),
        notes(alone_notes(results, labels)),
    ]
    return [*parts, *paired_parts(results.paired, labels, heading="###")]


def alone_notes(results: AloneResults, labels: Labels) -> list[str]:
    lines = [
        f"95 %: Wilson interval, clustered by {results.paired.config.cluster}. Answer block: "
        "answers in the form that the main agent reads; any other is wrong. Grounded: answers "
        "whose every claim their conversation had observed, of those that claim anything. Valid "
        "calls: neither invalid (no such tool or argument) nor refused (by the debugger's state or "
        "the tool limit). Steps, tokens, seconds: average a question.",
        "The source reader takes the nearest literal and never runs the program: what it gets "
        "right needs no debugger.",
    ]
    for each in results.models:
        if each.reasons:
            lines.append(f"Wrong, {each.name(labels)}: {counts(each.reasons)}.")
    if any(each.scripted for each in results.models):
        lines.append(
            "(scripted): the oracle is a scripted teacher that knows what is asked, though not the "
            "answer; its numbers are not a model's result."
        )
    return [*lines, *results.notes]


def alone_figures(results: AloneResults, labels: Labels) -> list[Record]:
    """Accuracy by category, one series per model, and comparisons."""
    series = []
    for model in results.models:
        name = model.name(labels)
        points = [
            Point(CATEGORIES[each][0], found.percent, found.low, found.high, name)
            for each, found in model.categories.items()
        ]
        if model.accuracy is not None:
            ends = (model.accuracy_low, model.accuracy_high)
            points.insert(0, Point("All", model.accuracy, *ends, name))
        if points:
            series.append(Series(name, tuple(points)))
    by_category = Figure(
        "accuracy_by_category",
        "Accuracy by category",
        "The categories of Debug2Fix, table 3",
        "Category",
        "% right",
        tuple(series),
    )
    return [by_category, *paired_records(results.paired, labels)]


@dataclass(frozen=True)
class AloneReport:
    summary: str
    """The tables for a terminal; empty if it was stopped before the first answer."""
    tables: TablePaths | None
    missing: int
    """Answers still missing, because it was stopped or they failed; the next start gets them."""
    reasons: tuple[str, ...] = ()
    """Distinct infrastructure or budget failures, as `type: message`."""
    stopped: bool = False


@dataclass(frozen=True)
class AloneStage:
    """Which subagents to measure, on what, and where to write the results."""

    runtime: RuntimeConfig
    config: AloneConfig
    statistics: StatisticsConfig
    benchmark: BenchmarkConfig
    """The benchmark whose bugs the questions are about."""
    run: Path
    """The run's folder; results go to its `eval/questions`."""
    labels: Labels

    @property
    def folder(self) -> Path:
        return self.run / "eval" / "questions"

    def preflight(self) -> dict[str, list[Finding]]:
        """Checks before a start, by model; nothing is asked. Raises ConfigError."""
        _, choice = open_chosen(self.benchmark, self.runtime.sandbox)
        asking = self._asking()
        path = questions_path(asking, self.folder)
        if self.config.path is None and not path.is_file():
            told = f"the start makes them, in {path}; their models can be looked at after that"
            return {"questions": [Finding("questions", True, told)]}
        questions, _ = self._choose(path, choice.instances)
        found = {}
        for name in self.config.models:
            config = asking.model_copy(update={"answer_with": name})
            findings = look_before_answers(self.runtime, config, questions, self.folder)
            found[f"questions to {name}"] = findings
        return found

    def measure(self, described: Mapping[str, Any]) -> AloneReport:
        """Ask for all missing answers, and write the tables.

        `described` is the whole config, stored with the results. Raises ConfigError, SandboxError.
        """
        benchmark, choice = open_chosen(self.benchmark, self.runtime.sandbox)
        asking = self._asking()
        path = questions_path(asking, self.folder)
        is_missing = self.config.path is None and not path.is_file()
        if is_missing and build(self.runtime, asking, self.folder) is None:
            # Stopped; the next start goes on.
            return AloneReport("", None, 0, stopped=True)
        questions, notes = self._choose(path, choice.instances)
        if str(choice):
            notes.append(f"Of the benchmark, {choice}, as `stepinto bench verify` marked.")
        answers: list[ModelAnswers] = []
        reasons: dict[str, None] = {}
        stopped = False
        for name in self.config.models:
            if stopped:
                answers.append(ModelAnswers(name, (), len(questions)))
                continue
            config = asking.model_copy(update={"answer_with": name})
            found = answer_all(self.runtime, config, questions, self.folder)
            answers.append(ModelAnswers(name, found.answered, found.missing))
            reasons |= dict.fromkeys(found.reasons)
            stopped = found.stopped
        floor = read_all(questions, instances_of(benchmark, questions))
        answers.append(ModelAnswers(SOURCE_READER, tuple(floor)))
        shared = shared_questions(answers)
        left_out = len({a.question.id for each in answers for a in each.answered}) - len(shared)
        if left_out:
            notes.append(
                f"Warning: not every model has a verdict on every question. The two first tables "
                f"are of the {len(shared)} that all share; left out are {left_out}."
            )
        cluster = self.statistics.cluster
        metrics = tuple(alone_metrics(each, shared, cluster) for each in answers)
        results = AloneResults(metrics, paired_answers(answers, self.statistics), tuple(notes))
        tables = self._write(results, answers, described)
        missing = sum(each.missing for each in answers)
        summary = "\n\n".join(alone_parts(results, self.labels)) + "\n"
        return AloneReport(summary, tables, missing, tuple(reasons), stopped)

    def _asking(self) -> QuestionsConfig:
        """The settings that generate the questions, and their path. Other settings use another
        path."""
        config = self.config
        asking = QuestionsConfig(
            benchmark=self.benchmark,
            per_category=config.per_category,
            limits=config.limits,
            seed=config.seed,
            test_timeout=config.test_timeout,
            output=config.path or str(self.folder / DEFAULT_NAME),
        )
        if config.path is not None:
            return asking
        made = asking.model_dump_json(exclude=ANSWERING)
        digest = hashlib.sha256(made.encode()).hexdigest()[:8]
        output = self.folder / f"questions-{digest}.jsonl"
        return asking.model_copy(update={"output": str(output)})

    def _choose(
        self, path: Path, instances: Sequence[Instance]
    ) -> tuple[tuple[Question, ...], list[str]]:
        """The file's questions about these bugs, and notes on which were chosen. Raises
        ConfigError, also if there are none."""
        known = {(each.benchmark, each.id) for each in instances}
        every = read_questions(path)
        about = [each for each in every if (each.benchmark, each.instance_id) in known]
        if not about:
            first = f" (the first: {every[0].benchmark} {every[0].instance_id})" if every else ""
            raise ConfigError(
                f"{path}: none of its {len(every)} questions is about the {len(instances)} bugs "
                f"that are evaluated{first}. Name the benchmark that they were made from in "
                "eval.questions.benchmark, with the split that has their bugs"
            )
        kept = tuple(drawn(about, self.config.shuffle_seed, self.config.limit))
        bugs = {(each.benchmark, each.instance_id) for each in kept}
        asked = f"{counted(len(kept), 'question')}, {counted(len(bugs), 'bug')}"
        notes = [f"n = {asked}; from {path}."]
        about_others, over_limit = len(every) - len(about), len(about) - len(kept)
        if about_others or over_limit:
            notes.append(
                f"Not asked of that file: {about_others} about bugs that are not evaluated, "
                f"{over_limit} over the limit."
            )
        trained = RepositoryNames(trained_repositories(self.run, self.runtime.models.values()))
        seen = sorted({each.repository for each in kept if each.repository in trained})
        if seen:
            notes.append(
                f"Warning: questions about {', '.join(seen)} are asked, which this run's "
                "training data has, so that a model trained on it is not measured on unseen code. "
                "Collect with collect.benchmark.split: train."
            )
        return kept, notes

    def _write(
        self,
        results: AloneResults,
        answers: Sequence[ModelAnswers],
        described: Mapping[str, Any],
    ) -> TablePaths:
        rollouts = [each.rollout for model in answers for each in model.answered if each.rollout]
        found = study(rollouts, RunStore(self.folder).read_conversations(), {})
        figures = alone_figures(results, self.labels)
        records = [*figures, *answer_records(found, self.labels)]
        tables = {
            "models": [each.facts() for each in results.models],
            "categories": [
                {"model": each.model, "category": category.value, **asdict(accuracy)}
                for each in results.models
                for category, accuracy in each.categories.items()
            ],
            **paired_facts(results.paired),
        }
        rows = [
            {
                "model": model.model,
                "question_id": each.question.id,
                "benchmark": each.question.benchmark,
                "instance_id": each.question.instance_id,
                "category": each.question.category.value,
                "right": each.verdict.correct,
                "reason": each.verdict.reason.value,
                "rollout_id": each.rollout.rollout_id if each.rollout is not None else None,
                "steps": each.steps,
                "tool_calls": each.tool_calls,
            }
            for model in answers
            for each in model.answered
        ]
        whole = {
            "config": dict(described),
            "notes": alone_notes(results, self.labels),
            **tables,
            "reasons": {each.model: each.reasons for each in results.models},
            "answers": rows,
        }
        page = ["# Evaluation", *alone_parts(results, self.labels), *parts(records)]
        return write_results(self.folder, "\n\n".join(page) + "\n", tables, whole, records)
