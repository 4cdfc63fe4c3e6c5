"""The eval stage for subagents alone: they answer runtime questions without a main agent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from collect.benchmarks.base import Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.held_out import RepositoryNames
from collect.benchmarks.opening import open_chosen, tell_skipped
from collect.benchmarks.splits import drawn
from collect.config import RuntimeConfig
from collect.errors import ConfigError
from collect.preflight import Finding
from collect.quantities import counted
from collect.question_records import Category, Question, read_questions
from collect.questions.answering import answer_all, instances_of, look_before_answers
from collect.questions.building import DEFAULT_NAME, build, questions_path
from collect.questions.config import ANSWERING, SOURCE_READER, QuestionsConfig
from collect.questions.rows import VARIANT
from collect.questions.source_reader import read_all
from collect.store.atomic_files import write_text
from collect.store.run_store import RunStore
from eval.figures import FOLDER as FIGURES
from eval.figures import Figure, Point, Record, Series, parts, write_records
from eval.labels import Labels
from eval.metrics import MISSING, Arm, InstanceKey, counts, decimal, dollars, seconds, span, tokens
from eval.output import FORMAT_VERSION, csv_text
from eval.paired.config import StatisticsConfig
from eval.paired.outcomes import Outcomes
from eval.paired.report import PairedReport, Standing, all_pairs, report_on
from eval.paired.tables import comparison_facts, gain_facts, paired_parts
from eval.panels import Facts
from eval.qualitative.study import study
from eval.qualitative.tables import CATEGORY_TITLES, answer_records
from eval.standalone.config import AloneConfig
from eval.standalone.metrics import (
    Accuracy,
    AloneMetrics,
    ModelAnswers,
    alone_metrics,
    bug_of,
    shared_questions,
)
from eval.tables import notes, table
from eval.training_data import trained_repositories

SOURCE_READER_NAME = f"{SOURCE_READER} (runs nothing)"
COLUMNS: dict[str, Callable[[AloneMetrics], str]] = {
    "Questions": lambda m: str(m.questions),
    "Right": lambda m: str(m.accuracy.right) if m.accuracy else MISSING,
    "Accuracy %": lambda m: decimal(m.accuracy.percent) if m.accuracy else MISSING,
    "95 %": lambda m: span(m.accuracy.low, m.accuracy.high) if m.accuracy else MISSING,
    "Answer block %": lambda m: decimal(m.well_formed),
    "Grounded %": lambda m: decimal(m.grounded),
    "Valid calls %": lambda m: decimal(m.valid_calls),
    "Invalid": lambda m: _calls(m, m.invalid_calls),
    "Refused": lambda m: _calls(m, m.refused_calls),
    "Steps": lambda m: decimal(m.steps),
    "Tokens": lambda m: tokens(m.tokens),
    "Seconds": lambda m: seconds(m.seconds),
    "$ total": lambda m: dollars(m.dollars),
    "$/question": lambda m: dollars(m.dollars_per_question),
    "No verdict": lambda m: str(m.missing),
}
"""One entry per column of the table of models."""


@dataclass(frozen=True)
class AloneResults:
    """All results of subagents alone."""

    models: tuple[AloneMetrics, ...]
    paired: PairedReport = field(default_factory=PairedReport)
    notes: tuple[str, ...] = ()
    """Notes on this evaluation for readers."""


def models_table(models: Sequence[AloneMetrics], labels: Labels) -> list[list[str]]:
    """One row per model, header first."""
    rows = [["Model", *COLUMNS]]
    return rows + [[name_of(m, labels), *(text(m) for text in COLUMNS.values())] for m in models]


def categories_table(models: Sequence[AloneMetrics], labels: Labels) -> list[list[str]]:
    """One row per category, one column per model: accuracy in percent, with its interval."""
    rows = [["Category", "Questions", *(name_of(m, labels) for m in models)]]
    for category in Category:
        found = [m.categories.get(category) for m in models]
        asked = max((each.questions for each in found if each is not None), default=0)
        if asked:
            rows.append([category.value, str(asked), *(_accuracy(each) for each in found)])
    return rows


def alone_parts(results: AloneResults, labels: Labels) -> list[str]:
    """The Markdown of all results, part by part."""
    parts = [
        "## Subagents alone, on runtime questions",
        table(models_table(results.models, labels)),
        "### Accuracy by category",
        table(categories_table(results.models, labels)),
        notes(alone_notes(results, labels)),
    ]
    return [*parts, *paired_parts(results.paired, labels, heading="###")]


def alone_notes(results: AloneResults, labels: Labels) -> list[str]:
    """Notes for readers of the tables, one or two sentences per line."""
    lines = [
        "95 %: Wilson interval, clustered by bug. Answer block: answers in the form that the main "
        "agent reads; any other is wrong. Grounded: answers whose every claim their conversation "
        "had observed, of those that claim anything. Valid calls: neither invalid (no such tool or "
        "argument) nor refused (by the debugger's state or the tool limit). Steps, tokens, "
        "seconds: average a question.",
        "The source reader takes the nearest literal and never runs the program: what it gets "
        "right needs no debugger.",
    ]
    for each in results.models:
        if each.reasons:
            lines.append(f"Wrong, {name_of(each, labels)}: {counts(each.reasons)}.")
    if any(each.scripted for each in results.models):
        lines.append(
            "(scripted): the oracle is a scripted teacher that knows what is asked, though not the "
            "answer; its numbers are not a model's result."
        )
    return [*lines, *results.notes]


def alone_records(
    metrics: Sequence[AloneMetrics], answers: Sequence[ModelAnswers], folder: Path, labels: Labels
) -> list[Record]:
    """Accuracy by category, and figures on the answers and sessions in `folder`."""
    rollouts = [each.rollout for model in answers for each in model.answered if each.rollout]
    found = study(rollouts, RunStore(folder).read_conversations(), {})
    accuracy = accuracy_figure(metrics, labels)
    return [*([accuracy] if accuracy.series else []), *answer_records(found, labels)]


def accuracy_figure(metrics: Sequence[AloneMetrics], labels: Labels) -> Figure:
    """Right answers, over all questions and by category, one series per model."""
    series = []
    for model in metrics:
        rates = {"All": model.accuracy}
        rates |= {CATEGORY_TITLES[each]: model.categories.get(each) for each in Category}
        points = [
            Point(title, found.percent, found.low, found.high)
            for title, found in rates.items()
            if found is not None
        ]
        if points:
            series.append(Series(name_of(model, labels), tuple(points)))
    return Figure(
        "accuracy_by_category",
        "Accuracy by category",
        "The categories of Debug2Fix, table 3",
        "Category",
        "% right",
        tuple(series),
    )


def name_of(metrics: AloneMetrics, labels: Labels) -> str:
    """A model's name in the tables."""
    if metrics.is_source_reader:
        return SOURCE_READER_NAME
    return labels.models(Arm("", "", metrics.model), metrics.scripted)


def _calls(metrics: AloneMetrics, number: int) -> str:
    return MISSING if metrics.is_source_reader else f"{number} of {metrics.tool_calls}"


def _accuracy(found: Accuracy | None) -> str:
    return MISSING if found is None else f"{found.percent:.1f} ({span(found.low, found.high)})"


# Questions: read from a file, or generated for it.


@dataclass(frozen=True)
class ChosenQuestions:
    """Selected and skipped questions."""

    questions: tuple[Question, ...]
    path: Path
    about_others: int
    """Questions in the file about bugs that the benchmark section does not select."""
    over_limit: int


def asking_config(config: AloneConfig, benchmark: BenchmarkConfig, folder: Path) -> QuestionsConfig:
    """The settings that generate the questions, and their path. Other settings use another path."""
    if config.path is not None:
        return config.asking(benchmark, Path(config.path))
    made = config.asking(benchmark, folder / DEFAULT_NAME).model_dump_json(exclude=ANSWERING)
    digest = hashlib.sha256(made.encode()).hexdigest()[:8]
    return config.asking(benchmark, folder / f"questions-{digest}.jsonl")


def questions_file(
    runtime: RuntimeConfig, config: AloneConfig, asking: QuestionsConfig, folder: Path
) -> Path | None:
    """The config's question file; generated if the config names none and none exists yet.

    None if the user stopped the generation; the next start resumes it. Raises ConfigError,
    SandboxError.
    """
    path = questions_path(asking, folder)
    if to_be_made(config, path) and build(runtime, asking, folder).card is None:
        return None
    return path


def to_be_made(config: AloneConfig, path: Path) -> bool:
    """Whether the question file has to be generated."""
    return config.path is None and not path.is_file()


def choose_questions(
    config: AloneConfig, path: Path, instances: Sequence[Instance]
) -> ChosenQuestions:
    """The file's questions about these bugs. Raises ConfigError, also if there are none."""
    known = {(each.benchmark, each.id) for each in instances}
    every = read_questions(path)
    about = [each for each in every if (each.benchmark, each.instance_id) in known]
    if not about:
        raise ConfigError(
            f"{path}: none of its {len(every)} questions is about the {len(instances)} bugs that "
            f"are evaluated{_example(every)}. Name the benchmark that they were made from in "
            "eval.questions.benchmark, with the split that has their bugs"
        )
    kept = tuple(drawn(about, config.shuffle_seed, config.limit))
    return ChosenQuestions(kept, path, len(every) - len(about), len(about) - len(kept))


def _example(questions: Sequence[Question]) -> str:
    first = next(iter(questions), None)
    return f" (the first: {first.benchmark} {first.instance_id})" if first is not None else ""


# Paired statistics for models that answered the same questions.


def paired_answers(models: Sequence[ModelAnswers], config: StatisticsConfig) -> PairedReport:
    """Each model against the baseline and the frontier model that the config names.

    If the config names none that answered, every model against every other. The source reader is
    compared only if it is named. `comparisons` is for arms with a main agent, and is ignored here.
    """
    outcomes = {model.arm: outcomes_of(model) for model in models}
    named = (config.baseline, config.frontier)
    arms = [m.arm for m in models if not m.is_source_reader or m.model in named]
    standing = Standing(arms, config, VARIANT)
    scripted = [model.arm for model in models if model.scripted]
    pairs = standing.pairs() or all_pairs(arms)
    return report_on(outcomes, pairs, standing.gains(), config, scripted=scripted, trial="question")


def outcomes_of(model: ModelAnswers) -> Outcomes:
    """Whether each answer is right, by bug and question."""
    outcomes: dict[InstanceKey, dict[str, bool]] = {}
    for each in model.answered:
        outcomes.setdefault(bug_of(each), {})[each.question.id] = each.verdict.correct
    return outcomes


# Files that an evaluation of subagents alone writes.


NESTED = ("accuracy", "categories", "reasons")


@dataclass(frozen=True)
class AlonePaths:
    """Paths of the tables."""

    markdown: Path
    csv: Path
    """One row per model; next to it are files with one row per model and category, and the paired
    statistics."""
    json: Path


def write_alone(
    results: AloneResults,
    answers: Sequence[ModelAnswers],
    folder: Path,
    config: Mapping[str, Any],
    labels: Labels,
    *,
    records: Sequence[Record] = (),
) -> AlonePaths:
    """Write the tables in three formats, each file atomically, and one CSV file per record.

    `config` must be JSON-serialisable; it goes into results.json with every answer's verdict.
    """
    paths = AlonePaths(folder / "tables.md", folder / "models.csv", folder / "results.json")
    tables = {
        "models": [model_row(each) for each in results.models],
        "categories": [row for each in results.models for row in category_rows(each)],
        "comparisons": comparison_facts(results.paired),
        "recovered_gain": gain_facts(results.paired),
    }
    page = ["# Evaluation", *alone_parts(results, labels), *parts(records)]
    write_text(paths.markdown, "\n\n".join(page) + "\n")
    write_records(records, folder / FIGURES)
    for name, rows in tables.items():
        if rows:
            write_text(folder / f"{name}.csv", csv_text(rows))
    whole = {
        "format_version": FORMAT_VERSION,
        "config": dict(config),
        "notes": alone_notes(results, labels),
        **tables,
        "figures": [asdict(record) for record in records],
        "reasons": {each.model: each.reasons for each in results.models},
        "answers": [row for each in answers for row in answer_rows(each)],
    }
    write_text(paths.json, json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    return paths


def model_row(metrics: AloneMetrics) -> Facts:
    """One model's metrics as plain numbers."""
    row: Facts = {
        each.name: getattr(metrics, each.name)
        for each in fields(metrics)
        if each.name not in NESTED
    }
    found = metrics.accuracy
    return row | {
        "right": found.right if found else None,
        "accuracy": found.percent if found else None,
        "accuracy_low": found.low if found else None,
        "accuracy_high": found.high if found else None,
    }


def category_rows(metrics: AloneMetrics) -> list[Facts]:
    """One row per category."""
    return [
        {"model": metrics.model, "category": category.value, **asdict(found)}
        for category, found in metrics.categories.items()
    ]


def answer_rows(model: ModelAnswers) -> list[dict[str, Any]]:
    """One row per answer."""
    return [
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
        for each in model.answered
    ]


FOLDER = "questions"


@dataclass(frozen=True)
class AloneReport:
    """The result of an evaluation."""

    summary: str
    """The tables for a terminal; empty if it was stopped before the first answer."""
    tables: AlonePaths | None
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
        return self.run / "eval" / FOLDER

    def check(self) -> None:
        """Raises ConfigError if a model is not in the config."""
        for name in self.config.models:
            self.runtime.model_config_of(name)

    def preflight(self) -> dict[str, list[Finding]]:
        """Checks before a start, by model; nothing is asked. Raises ConfigError."""
        _, choice = open_chosen(self.benchmark, self.runtime.sandbox)
        asking = asking_config(self.config, self.benchmark, self.folder)
        path = questions_path(asking, self.folder)
        if to_be_made(self.config, path):
            told = f"the start makes them, in {path}; their models can be looked at after that"
            return {"questions": [Finding("questions", True, told)]}
        questions = choose_questions(self.config, path, choice.instances).questions
        return {
            f"questions to {name}": look_before_answers(
                self.runtime,
                asking.model_copy(update={"answer_with": name}),
                questions,
                self.folder,
            )
            for name in self.config.models
        }

    def measure(self, described: Mapping[str, Any]) -> AloneReport:
        """Ask for all missing answers, and write the tables.

        `described` is the whole config, stored with the results. Raises ConfigError, SandboxError.
        """
        benchmark, choice = open_chosen(self.benchmark, self.runtime.sandbox)
        asking = asking_config(self.config, self.benchmark, self.folder)
        path = questions_file(self.runtime, self.config, asking, self.folder)
        if path is None:
            return AloneReport("", None, 0, stopped=True)
        chosen = choose_questions(self.config, path, choice.instances)
        tell_skipped(choice, self.folder)
        report = _ask(self, asking, chosen.questions)
        floor = read_all(chosen.questions, instances_of(benchmark, chosen.questions))
        answers = [*report.models, ModelAnswers(SOURCE_READER, tuple(floor))]
        results = self._results(answers, (*self._notes(chosen), *_skipped(str(choice))))
        records = alone_records(results.models, answers, self.folder, self.labels)
        paths = write_alone(results, answers, self.folder, described, self.labels, records=records)
        return AloneReport(
            "\n\n".join(alone_parts(results, self.labels)) + "\n",
            paths,
            sum(each.missing for each in report.models),
            report.reasons,
            report.stopped,
        )

    def _results(self, answers: Sequence[ModelAnswers], notes: tuple[str, ...]) -> AloneResults:
        shared = shared_questions(answers)
        left_out = len({a.question.id for each in answers for a in each.answered}) - len(shared)
        if left_out:
            notes += (
                f"Warning: not every model has a verdict on every question. The two first tables "
                f"are of the {len(shared)} that all share; left out are {left_out}.",
            )
        metrics = tuple(alone_metrics(each, shared) for each in answers)
        return AloneResults(metrics, paired_answers(answers, self.statistics), notes)

    def _notes(self, chosen: ChosenQuestions) -> list[str]:
        """Notes on which questions were asked and which were skipped."""
        bugs = {(each.benchmark, each.instance_id) for each in chosen.questions}
        asked, about = counted(len(chosen.questions), "question"), counted(len(bugs), "bug")
        lines = [f"n = {asked}, {about}; from {chosen.path}."]
        if chosen.about_others or chosen.over_limit:
            lines.append(
                f"Not asked of that file: {chosen.about_others} about bugs that are not evaluated, "
                f"{chosen.over_limit} over the limit."
            )
        trained = RepositoryNames(trained_repositories(self.run, self.runtime.models.values()))
        seen = sorted({q.repository for q in chosen.questions if q.repository in trained})
        if seen:
            lines.append(
                f"Warning: questions about {', '.join(seen)} are asked, which this run's "
                "training data has, so that a model trained on it is not measured on unseen code. "
                "Collect with collect.benchmark.split: train."
            )
        return lines


@dataclass(frozen=True)
class _Answers:
    """All models' answers so far."""

    models: tuple[ModelAnswers, ...]
    reasons: tuple[str, ...]
    stopped: bool


def _ask(stage: AloneStage, asking: QuestionsConfig, questions: Sequence[Question]) -> _Answers:
    """Ask one model after the other the same questions."""
    models: list[ModelAnswers] = []
    reasons: dict[str, None] = {}
    stopped = False
    for name in stage.config.models:
        if stopped:
            models.append(ModelAnswers(name, (), len(questions)))
            continue
        config = asking.model_copy(update={"answer_with": name})
        found = answer_all(stage.runtime, config, questions, stage.folder)
        models.append(ModelAnswers(name, found.answered, found.missing))
        reasons |= dict.fromkeys(found.reasons)
        stopped = found.stopped
    return _Answers(tuple(models), tuple(reasons), stopped)


def _skipped(choice: str) -> tuple[str, ...]:
    return (f"Of the benchmark, {choice}, as `stepinto bench verify` marked.",) if choice else ()
