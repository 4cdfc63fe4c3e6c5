"""The eval stage: (main, sub) pairs of models on held-out bugs, subagents alone on runtime
questions, and the tables of both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from collect.benchmarks.base import Instance
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.held_out import RepositoryNames
from collect.benchmarks.opening import Choice, open_chosen
from collect.config import RuntimeConfig
from collect.errors import ConfigError
from collect.models.serving.server import POOL
from collect.preflight import Finding
from collect.rollouts.rollout import RolloutSpec
from collect.rollouts.rows import RunIdentity
from collect.rollouts.stage import (
    RolloutsSummary,
    do_rollouts,
    fork_rollouts,
    rollouts_batch,
)
from collect.store.run_store import RunStore
from eval.config import EvalConfig
from eval.figures import TablePaths
from eval.metrics import Comparison, Labels, compare, labels_of
from eval.paired import paired_records, paired_report
from eval.paper_figures import debugger_use, panel_records, pass_rates
from eval.qualitative.judge import JudgeReport, check_judge, drawn, judge
from eval.qualitative.study import gold_patches, qualitative_records, questions_table, study
from eval.report.facts import sources_of
from eval.report.pages import ReportRequest, question_files, write_report
from eval.standalone import AloneReport, AloneStage, trained_repositories
from eval.tables import full_set_of, panels_of, summary, write_tables

FOLDER, REPORT = "eval", "report"


@dataclass(frozen=True)
class InPlaceReport:
    summary: str
    """The tables, for a terminal."""
    rollouts: RolloutsSummary
    tables: TablePaths
    judge: JudgeReport | None = None
    """A model's judgement of questions; None if no judge is configured."""


@dataclass(frozen=True)
class InPlaceStage:
    runtime: RuntimeConfig
    config: EvalConfig
    benchmark: BenchmarkConfig
    run: Path
    labels: Labels

    def preflight(self) -> list[Finding]:
        """Checks before a start; no rollout is done. Raises ConfigError."""
        benchmark, choice = open_chosen(self.benchmark, self.runtime.sandbox)
        specs, identity = self._specs(choice), RunIdentity(self.run.name, self.runtime.seed)
        folder = self.run / FOLDER
        with rollouts_batch(self.runtime, benchmark, specs, identity, folder) as batch:
            return batch.preflight()

    def _specs(self, choice: Choice) -> list[RolloutSpec]:
        """Every attempt, bug and arm; all first attempts come first."""
        return [
            RolloutSpec(instance, variant, main, sub, attempt)
            for attempt in range(self.config.attempts)
            for instance in choice.instances
            for variant, main, sub in self.config.arms()
        ]

    def measure(self, described: dict[str, Any]) -> InPlaceReport:
        """Do the missing rollouts, and write the tables. Raises ConfigError."""
        config, labels, folder = self.config, self.labels, self.run / FOLDER
        benchmark, choice = open_chosen(self.benchmark, self.runtime.sandbox)
        specs, identity = self._specs(choice), RunIdentity(self.run.name, self.runtime.seed)
        others = forked(specs) if config.fork else {}
        if others:
            later = {spec.id for found in others.values() for spec in found}
            first = [spec for spec in specs if spec.id not in later]
            done = do_rollouts(self.runtime, benchmark, first, identity, folder)
            fork_rollouts(self.runtime, others, folder)
        if not others or not done.stopped:
            done = do_rollouts(self.runtime, benchmark, specs, identity, folder)
        store, asked = RunStore(folder), {spec.id for spec in specs}
        rows = [row for row in store.read_rollouts() if row.rollout_id in asked]

        trained = trained_repositories(self.run, self.runtime.models.values())
        found = study(rows, store.read_conversations(), gold_patches(choice.instances))
        comparison = compare(rows, config.baseline, config.statistics.cluster, found.seconds)
        comparison = note_training(comparison, choice.instances, trained)
        comparison = replace(comparison, skipped=str(choice))
        panels = panels_of(comparison, rows, full_set_of(benchmark))
        paired = paired_report(rows, config.statistics, config.baseline)
        records = [
            pass_rates(comparison, labels),
            debugger_use(comparison, rows, found.seconds, labels),
            *paired_records(paired, labels),
            *panel_records(panels, labels),
            *qualitative_records(found, labels),
        ]
        write = partial(
            write_tables,
            comparison,
            rows,
            folder,
            panels=panels,
            paired=paired,
            config=described,
            labels=labels,
        )
        tables, said = write(records=records), None
        if config.judge is not None and not done.stopped:
            asked_about = drawn(found.questions, config.judge)
            said = judge(self.runtime, config.judge, choice.instances, asked_about, folder)
            tables = write(records=[*records, questions_table(said, found, labels)])
        told = summary(comparison, labels, panels, paired)
        return InPlaceReport(told, done, tables, said)


def note_training(
    comparison: Comparison, instances: Sequence[Instance], trained: Collection[str]
) -> Comparison:
    """Add the bugs whose repository, in any spelling, is among those trained on."""
    known = RepositoryNames(trained)
    seen = {(each.benchmark, each.id) for each in instances if each.repository in known}
    return replace(comparison, trained_on=tuple(k for k in comparison.instances if k in seen))


def forked(specs: Iterable[RolloutSpec]) -> Mapping[str, list[RolloutSpec]]:
    """Rollouts that differ from an earlier one in the subagent's model only, by that one's id."""
    firsts: dict[str, RolloutSpec] = {}
    others = defaultdict[str, list[RolloutSpec]](list)
    for spec in specs:
        first = firsts.setdefault(replace(spec, sub=None).id, spec)
        if first is not spec:
            others[first.id].append(spec)
    return others


@dataclass(frozen=True)
class EvalReport:
    in_place: InPlaceReport | None
    """None if the config names no pair of models."""
    alone: AloneReport | None
    """Results of subagents alone; None if the config has no questions, or it was stopped before."""
    page: Path | None
    """The index of the HTML report; None if there is nothing to show."""


@POOL.kept()
def run_eval(
    runtime: RuntimeConfig,
    config: EvalConfig,
    collected: BenchmarkConfig,
    run: Path,
    described: dict[str, Any],
) -> EvalReport:
    """Do the rollouts and questions that `run/eval` lacks, and write the tables.

    `collected` is collect's benchmark: its held-out split is evaluated if the config names no
    benchmark. `described` is the whole config, stored with the results. Raises ConfigError.
    """
    in_place, alone = check_eval(runtime, config, collected, run)
    arms = in_place.measure(described) if in_place is not None else None
    stopped = arms is not None and arms.rollouts.stopped
    asked = alone.measure(described) if alone is not None and not stopped else None
    sources = {stage: at for stage, at in sources_of(run).items() if stage != "collect"}
    if not sources:
        return EvalReport(arms, asked, None)
    questions = question_files(run)
    if config.questions is not None and config.questions.path is not None:
        questions.append(Path(config.questions.path))
    request = ReportRequest(
        title=f"{run.name}: evaluation",
        run=run,
        sources=sources,
        output=run / FOLDER / REPORT,
        questions=questions,
        labels=labels_of(runtime),
    )
    return EvalReport(arms, asked, write_report(request).index)


@POOL.kept()
def look_before_eval(
    runtime: RuntimeConfig, config: EvalConfig, collected: BenchmarkConfig, run: Path
) -> dict[str, list[Finding]]:
    """Checks before `run_eval`, by what would be measured. Raises ConfigError."""
    in_place, alone = check_eval(runtime, config, collected, run)
    found = {"pairs in place": in_place.preflight()} if in_place is not None else {}
    return found | (alone.preflight() if alone is not None else {})


def check_eval(
    runtime: RuntimeConfig, config: EvalConfig, collected: BenchmarkConfig, run: Path
) -> tuple[InPlaceStage | None, AloneStage | None]:
    """The requested stages. Raises ConfigError if there are none, or a model is not defined."""
    if not config.arms() and config.questions is None:
        raise ConfigError(
            "there is nothing to evaluate: set eval.pairs, e.g. [{main: a, sub: b}], or "
            "eval.questions, e.g. {models: [b]}"
        )
    benchmark, labels = config.bugs_of(collected), labels_of(runtime)
    models = {name for _, main, sub in config.arms() for name in (main, sub) if name}
    in_place = InPlaceStage(runtime, config, benchmark, run, labels) if config.arms() else None
    alone = None
    if config.questions is not None:
        models |= {*config.questions.models}
        bugs = config.questions.benchmark or benchmark
        alone = AloneStage(runtime, config.questions, config.statistics, bugs, run, labels)
    for name in sorted(models):
        runtime.model_config_of(name)
    if config.judge is not None:
        check_judge(runtime, config.judge)
    return in_place, alone
