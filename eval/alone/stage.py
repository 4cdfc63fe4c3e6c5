"""Any subagent on runtime questions, without a main agent: the part of the eval stage that measures
it alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collect.benchmarks.choosing import open_chosen, tell_skipped
from collect.benchmarks.config import BenchmarkConfig
from collect.config import Machinery
from collect.held_out import RepositoryNames
from collect.preflight.checks import Finding
from collect.quantities import counted
from collect.questions.answering import answer_all, instances_of, look_before_answers
from collect.questions.building import questions_path
from collect.questions.config import SOURCE_READER, QuestionsConfig
from collect.questions.records import Question
from collect.questions.source_reader import read_all
from eval.alone.choosing import (
    ChosenQuestions,
    asking_config,
    choose_questions,
    questions_file,
    to_be_made,
)
from eval.alone.comparing import paired_answers
from eval.alone.config import AloneConfig
from eval.alone.metrics import ModelAnswers, alone_metrics, shared_questions
from eval.alone.output import AlonePaths, write_alone
from eval.alone.tables import AloneResults, alone_parts, alone_records
from eval.labels import Labels
from eval.paired.config import StatisticsConfig
from eval.training_data import trained_repositories

FOLDER = "questions"


@dataclass(frozen=True)
class AloneReport:
    """What it came to."""

    summary: str
    """The tables, for a terminal; empty where it was stopped before the first answer."""
    tables: AlonePaths | None
    missing: int
    """Answers that the next start gives: it was stopped, or they failed."""
    reasons: tuple[str, ...] = ()
    """Different failures of the infrastructure or the budget, as `type: message`."""
    stopped: bool = False


@dataclass(frozen=True)
class AloneStage:
    """Which subagents are measured, on what, and where the numbers go."""

    machinery: Machinery
    config: AloneConfig
    statistics: StatisticsConfig
    benchmark: BenchmarkConfig
    """Whose bugs are asked about."""
    run: Path
    """The run's folder; the numbers go to `eval/questions` in it."""
    labels: Labels

    @property
    def folder(self) -> Path:
        return self.run / "eval" / FOLDER

    def check(self) -> None:
        """Raises ConfigError where a model is not in the config."""
        for name in self.config.models:
            self.machinery.model_config_of(name)

    def preflight(self) -> dict[str, list[Finding]]:
        """What a start looks at first, by model; nothing is asked. Raises ConfigError."""
        _, choice = open_chosen(self.benchmark, self.machinery.sandbox)
        asking = asking_config(self.config, self.benchmark, self.folder)
        path = questions_path(asking, self.folder)
        if to_be_made(self.config, path):
            told = f"the start makes them, in {path}; their models can be looked at after that"
            return {"questions": [Finding("questions", True, told)]}
        questions = choose_questions(self.config, path, choice.instances).questions
        return {
            f"questions to {name}": look_before_answers(
                self.machinery,
                asking.model_copy(update={"answer_with": name}),
                questions,
                self.folder,
            )
            for name in self.config.models
        }

    def measure(self, described: Mapping[str, Any]) -> AloneReport:
        """Ask what has no answer yet, and write the tables.

        `described` is the whole config, noted beside the numbers. Raises ConfigError, SandboxError.
        """
        benchmark, choice = open_chosen(self.benchmark, self.machinery.sandbox)
        asking = asking_config(self.config, self.benchmark, self.folder)
        path = questions_file(self.machinery, self.config, asking, self.folder)
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
        """What was asked, and what was not."""
        bugs = {(each.benchmark, each.instance_id) for each in chosen.questions}
        asked, about = counted(len(chosen.questions), "question"), counted(len(bugs), "bug")
        lines = [f"n = {asked}, {about}; from {chosen.path}."]
        if chosen.about_others or chosen.over_limit:
            lines.append(
                f"Not asked of that file: {chosen.about_others} about bugs that are not evaluated, "
                f"{chosen.over_limit} over the limit."
            )
        trained = RepositoryNames(trained_repositories(self.run, self.machinery.models.values()))
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
    """What all models have said so far."""

    models: tuple[ModelAnswers, ...]
    reasons: tuple[str, ...]
    stopped: bool


def _ask(stage: AloneStage, asking: QuestionsConfig, questions: Sequence[Question]) -> _Answers:
    """The same questions to one model after the other."""
    models: list[ModelAnswers] = []
    reasons: dict[str, None] = {}
    stopped = False
    for name in stage.config.models:
        if stopped:
            models.append(ModelAnswers(name, (), len(questions)))
            continue
        config = asking.model_copy(update={"answer_with": name})
        found = answer_all(stage.machinery, config, questions, stage.folder)
        models.append(ModelAnswers(name, found.answered, found.missing))
        reasons |= dict.fromkeys(found.reasons)
        stopped = found.stopped
    return _Answers(tuple(models), tuple(reasons), stopped)


def _skipped(choice: str) -> tuple[str, ...]:
    return (f"Of the benchmark, {choice}, as `stepinto bench verify` marked.",) if choice else ()
