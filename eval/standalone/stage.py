"""The eval stage for subagents alone: they answer runtime questions without a main agent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
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
from collect.question_records import Question, read_questions
from collect.questions.answering import answer_all, instances_of, look_before_answers
from collect.questions.building import DEFAULT_NAME, build, questions_path
from collect.questions.config import ANSWERING, SOURCE_READER, QuestionsConfig
from collect.questions.rows import VARIANT
from collect.questions.source_reader import read_all
from collect.store.atomic_files import write_text
from eval.figures import FOLDER as FIGURES
from eval.figures import Record, parts, write_records
from eval.labels import Labels
from eval.metrics import InstanceKey
from eval.output import FORMAT_VERSION, csv_text
from eval.paired.config import StatisticsConfig
from eval.paired.outcomes import Outcomes
from eval.paired.report import PairedReport, Standing, all_pairs, report_on
from eval.paired.tables import comparison_facts, gain_facts
from eval.panels import Facts
from eval.standalone.config import AloneConfig
from eval.standalone.metrics import (
    AloneMetrics,
    ModelAnswers,
    alone_metrics,
    bug_of,
    shared_questions,
)
from eval.standalone.tables import AloneResults, alone_notes, alone_parts, alone_records
from eval.training_data import trained_repositories

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
