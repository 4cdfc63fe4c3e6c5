"""The eval stage for subagents alone: they answer runtime questions without a main agent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from collect.benchmarks.base import Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.held_out import RepositoryNames
from collect.benchmarks.opening import drawn, open_chosen, tell_skipped
from collect.config import RuntimeConfig
from collect.errors import ConfigError
from collect.preflight import Finding
from collect.quantities import counted
from collect.question_records import Question, read_questions
from collect.questions.answering import answer_all, instances_of, look_before_answers
from collect.questions.building import DEFAULT_NAME, build, questions_path
from collect.questions.config import ANSWERING, SOURCE_READER, QuestionsConfig
from collect.questions.source_reader import read_all
from collect.store.run_store import RunStore
from eval.config import AloneConfig, StatisticsConfig
from eval.figures import parts
from eval.labels import Labels
from eval.output import TablePaths, write_results
from eval.paired.report import comparison_facts, gain_facts
from eval.qualitative.study import study
from eval.qualitative.tables import answer_records
from eval.standalone.metrics import (
    AloneResults,
    ModelAnswers,
    alone_figures,
    alone_metrics,
    alone_notes,
    alone_parts,
    paired_answers,
    shared_questions,
)
from eval.training_data import trained_repositories


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
        if is_missing and build(self.runtime, asking, self.folder).card is None:
            # Stopped; the next start goes on.
            return AloneReport("", None, 0, stopped=True)
        questions, notes = self._choose(path, choice.instances)
        if str(choice):
            notes.append(f"Of the benchmark, {choice}, as `stepinto bench verify` marked.")
        tell_skipped(choice, self.folder)
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
        metrics = tuple(alone_metrics(each, shared) for each in answers)
        results = AloneResults(metrics, paired_answers(answers, self.statistics), tuple(notes))
        tables = self._write(results, answers, described)
        missing = sum(each.missing for each in answers)
        summary = "\n\n".join(alone_parts(results, self.labels)) + "\n"
        return AloneReport(summary, tables, missing, tuple(reasons), stopped)

    def _asking(self) -> QuestionsConfig:
        """The settings that generate the questions, and their path. Other settings use another
        path."""
        if self.config.path is not None:
            return self.config.asking(self.benchmark, Path(self.config.path))
        asking = self.config.asking(self.benchmark, self.folder / DEFAULT_NAME)
        made = asking.model_dump_json(exclude=ANSWERING)
        digest = hashlib.sha256(made.encode()).hexdigest()[:8]
        return self.config.asking(self.benchmark, self.folder / f"questions-{digest}.jsonl")

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
            "comparisons": comparison_facts(results.paired),
            "recovered_gain": gain_facts(results.paired),
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
