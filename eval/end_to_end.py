"""End-to-end evaluation: every arm on the same held-out bugs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from collect.benchmarks.base import Benchmark
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.opening import Choice, open_chosen, tell_skipped
from collect.config import RuntimeConfig
from collect.preflight import Finding
from collect.rollouts.rollout import RolloutSpec
from collect.rollouts.rows import RunIdentity
from collect.rollouts.stage import RolloutsSummary, do_rollouts, look_before_rollouts
from collect.store.records import Rollout
from collect.store.run_store import RunStore
from eval.config import EvalConfig
from eval.figures import Record
from eval.full_set import full_set_of
from eval.labels import Labels
from eval.metrics import Comparison, compare
from eval.output import TablePaths, write_tables
from eval.page import summary
from eval.paired.report import paired_report
from eval.panels import Panel, panels_of
from eval.paper_figures import arm_records, panel_records
from eval.qualitative.judge import Judge, JudgeReport, check_judge
from eval.qualitative.samples import Samples
from eval.qualitative.study import Study, gold_patches, study
from eval.qualitative.tables import judge_records, qualitative_records
from eval.training_data import note_training, trained_repositories

FOLDER = "eval"


@dataclass(frozen=True)
class InPlaceReport:
    """The results of the arms."""

    summary: str
    """The tables, for a terminal."""
    rollouts: RolloutsSummary
    tables: TablePaths
    judge: JudgeReport | None = None
    """A model's judgement of questions and failures; None if no judge is configured."""


class InPlaceStage:
    """A config's arms on the bugs of one benchmark."""

    def __init__(
        self,
        runtime: RuntimeConfig,
        config: EvalConfig,
        benchmark: BenchmarkConfig,
        run: Path,
        labels: Labels,
    ) -> None:
        self._runtime, self._config, self._benchmark = runtime, config, benchmark
        self._run, self._folder, self._labels = run, run / FOLDER, labels

    def check(self) -> None:
        """Raise ConfigError if a model is not in the config, or the judge can't be asked."""
        for name in {name for _, main, sub in self._config.arms() for name in (main, sub) if name}:
            self._runtime.model_config_of(name)
        if self._config.judge is not None:
            check_judge(self._runtime, self._config.judge)

    def preflight(self) -> list[Finding]:
        """Checks before a start; no rollout is done. Raises ConfigError."""
        benchmark, choice = open_chosen(self._benchmark, self._runtime.sandbox)
        specs, identity = self._specs(choice), self._identity
        return look_before_rollouts(self._runtime, benchmark, specs, identity, self._folder)

    @property
    def _identity(self) -> RunIdentity:
        return RunIdentity(self._run.name, self._runtime.seed)

    def _specs(self, choice: Choice) -> list[RolloutSpec]:
        """Every attempt, bug and arm; all first attempts come first."""
        return [
            RolloutSpec(instance, variant, main, sub, attempt)
            for attempt in range(self._config.attempts)
            for instance in choice.instances
            for variant, main, sub in self._config.arms()
        ]

    def measure(self, described: dict[str, Any]) -> InPlaceReport:
        """Do the missing rollouts, and write the tables. Raises ConfigError."""
        benchmark, choice = open_chosen(self._benchmark, self._runtime.sandbox)
        rollouts, rows = self._roll_out(benchmark, choice)
        comparison, panels = self._compared(benchmark, choice, rows)
        paired = paired_report(rows, self._config.statistics, self._config.baseline)
        judged = self._config.judge if not rollouts.stopped else None
        samples = Samples.of(judged) if judged is not None else None
        conversations = RunStore(self._folder).read_conversations()
        found = study(rows, conversations, gold_patches(choice.instances), samples)
        records = self._records(comparison, panels, rows, found)
        write = partial(
            write_tables,
            comparison,
            rows,
            self._folder,
            panels=panels,
            paired=paired,
            config=described,
            labels=self._labels,
        )
        told = summary(comparison, self._labels, panels, paired)
        report = InPlaceReport(told, rollouts, write(records=records))
        if judged is None or samples is None:
            return report
        # The tables are already written, so that a failing model does not lose them.
        judge = Judge(self._runtime, judged, choice.instances, self._folder).judge(samples.items)
        tables = write(records=[*records, *judge_records(judge, found, self._labels)])
        return replace(report, tables=tables, judge=judge)

    def _roll_out(
        self, benchmark: Benchmark, choice: Choice
    ) -> tuple[RolloutsSummary, list[Rollout]]:
        """What was done, and the rows of all requested rollouts."""
        specs = self._specs(choice)
        tell_skipped(choice, self._folder)
        done = do_rollouts(self._runtime, benchmark, specs, self._identity, self._folder)
        asked = {spec.id for spec in specs}
        store = RunStore(self._folder)
        return done, [row for row in store.read_rollouts() if row.rollout_id in asked]

    def _compared(
        self, benchmark: Benchmark, choice: Choice, rows: Sequence[Rollout]
    ) -> tuple[Comparison, tuple[Panel, ...]]:
        comparison = compare(rows, self._config.baseline)
        trained = trained_repositories(self._run, self._runtime.models.values())
        comparison = note_training(comparison, choice.instances, trained)
        comparison = replace(comparison, skipped=str(choice))
        full_set = full_set_of(benchmark)
        return comparison, panels_of(
            comparison, rows, {benchmark.name: full_set} if full_set else {}
        )

    def _records(
        self,
        comparison: Comparison,
        panels: Sequence[Panel],
        rows: Sequence[Rollout],
        found: Study,
    ) -> list[Record]:
        """The further tables and figures, without a judge's."""
        return [
            *arm_records(comparison, rows, self._labels),
            *panel_records(panels, self._labels),
            *qualitative_records(found, self._labels),
        ]
