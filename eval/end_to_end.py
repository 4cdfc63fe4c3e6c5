"""End-to-end evaluation: every arm on the same held-out bugs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from collect.rollouts.stage import RolloutsSummary, do_rollouts, rollouts_batch
from collect.store.records import Rollout
from collect.store.run_store import RunStore
from eval.actions import ALL, OUTCOMES, frequencies
from eval.attempts import (
    SHOWN_SETS,
    Solved,
    exact_sets,
    most_attempts,
    resolved_within,
    solved_bugs,
    standing,
)
from eval.attempts import compared as without_ablations
from eval.config import EvalConfig
from eval.figures import Cell, Figure, FigureKind, Point, Record, Series, Table
from eval.full_set import full_set_of
from eval.labels import ABLATIONS, Labels
from eval.metrics import (
    ArmMetrics,
    Comparison,
    InstanceKey,
    arm_of,
    compare,
    instance_of,
    judged,
    percent,
)
from eval.output import TablePaths, write_tables
from eval.page import summary
from eval.paired.report import paired_report
from eval.panels import Panel, is_repair, panels_of
from eval.qualitative.judge import Judge, JudgeReport, check_judge
from eval.qualitative.samples import Samples
from eval.qualitative.study import Study, gold_patches, study
from eval.qualitative.tables import judge_records, qualitative_records
from eval.tables import ordered
from eval.training_data import note_training, trained_repositories

# Figures with the rates and costs of all arms, and InspectCoder's figures.


Value = Callable[[ArmMetrics], float | None]
TABLES_1 = "Debug2Fix, tables 1 and 2"


def arm_records(
    comparison: Comparison, rollouts: Sequence[Rollout], labels: Labels
) -> list[Record]:
    """Figures for all arms, from any paper."""
    arms = [metrics for metrics in ordered(comparison) if metrics.rollouts]
    if not arms:
        return []
    figures = [
        _bars("pass_rate", arms, labels, lambda m: m.pass_rate),
        _bars("call_rate", arms, labels, lambda m: m.call_rate),
        _main_and_sub("steps", arms, labels, lambda m: m.main_steps, _sub_steps),
        _main_and_sub("tokens", arms, labels, lambda m: m.main_tokens, _sub_tokens),
        cost_figure(arms, labels),
    ]
    drawn = [figure for figure in figures if figure.series]
    return [*drawn, costs_table(arms, labels), *fixes_records(comparison, rollouts, labels)]


def costs_table(arms: Sequence[ArmMetrics], labels: Labels) -> Table:
    """The costs per rollout and per resolved bug."""
    rows: list[tuple[Cell, ...]] = []
    for m in arms:
        tokens = _total(m.main_tokens, _sub_tokens(m))
        fixes = m.resolved / m.rollouts
        rows.append(
            (
                *(labels.variant(m.arm.variant), labels.models(m.arm, m.scripted)),
                _total(m.main_steps, _sub_steps(m)),
                _whole(tokens),
                _whole(tokens / fixes if tokens is not None and fixes else None),
                m.debug_seconds,
                m.debug_seconds / fixes if m.debug_seconds is not None and fixes else None,
                _cents(m.dollars_per_rollout),
                _cents(m.dollars_per_fix),
            )
        )
    columns = ("Variant", "Models", "Steps", "Tokens", "Tokens a fix", "Seconds", "Seconds a fix")
    return Table(
        "costs",
        "What it costs",
        "Beside Debug2Fix, table 1, and InspectCoder, table 1",
        (*columns, "Cents", "Cents a fix"),
        tuple(rows),
        "Averages a rollout, main agent and subagent together, without scoring; a fix: by the "
        "number of resolved rollouts.",
    )


def cost_figure(arms: Sequence[ArmMetrics], labels: Labels) -> Figure:
    """Pass rate against cost per rollout: dollars if any were spent, else tokens."""
    in_dollars = any(m.dollars_per_rollout for m in arms)
    points = tuple(
        Point(
            _label(m, labels),
            m.pass_rate,
            m.pass_low,
            m.pass_high,
            m.dollars_per_rollout if in_dollars else _total(m.main_tokens, _sub_tokens(m)),
        )
        for m in arms
    )
    return Figure(
        "pass_rate_by_cost",
        "Pass rate by cost",
        f"Beside {TABLES_1}",
        "Dollars a rollout" if in_dollars else "Tokens a rollout",
        "% of rollouts",
        (Series("arms", points),),
        FigureKind.SCATTER,
    )


def fixes_records(
    comparison: Comparison, rollouts: Sequence[Rollout], labels: Labels
) -> list[Record]:
    """Bugs that only one arm fixed, over the attempts for which all have a verdict.

    Empty if all arms are InspectCoder's systems, which have their own figures per pair of models.
    """
    arms = [metrics for metrics in ordered(comparison) if metrics.rollouts]
    if len(arms) < 2 or all(is_repair(metrics.arm.variant) for metrics in arms):
        return []
    bugs = set(comparison.instances)
    solved: dict[str, frozenset[InstanceKey]] = {_label(m, labels): frozenset() for m in arms}
    names = {m.arm: _label(m, labels) for m in arms}
    for row in judged(rollouts, comparison.attempts):
        if row.resolved:
            solved[names[arm_of(row)]] |= {instance_of(row)}
    sets: list[tuple[Cell, ...]] = [(" + ".join(who), len(who), n) for who, n in exact_sets(solved)]
    sets.append(("none", 0, len(bugs - frozenset().union(*solved.values()))))
    table = Table(
        "fixes_by_exactly",
        "Bugs by exactly who resolved them",
        "As InspectCoder, figure 6, for all arms",
        ("Resolved by exactly", "Arms", "Bugs"),
        tuple(sets),
        "By any rollout of an arm.",
        in_text=len(sets) <= SHOWN_SETS,
    )
    return [table, _overlap("unique_fixes", "Unique and shared fixes: all arms", solved)]


def panel_records(panels: Sequence[Panel], labels: Labels) -> list[Record]:
    """InspectCoder's figures 6, 7 and 8, for each benchmark and pair of models."""
    records: list[Record] = []
    for number, panel in enumerate(panels, 1):
        title = panel.title(labels)
        solved = {labels.variant(v): b for v, b in without_ablations(solved_bugs(panel)).items()}
        if len(solved) > 1:
            records.append(_overlap(f"fig6_overlap_{number}", f"Overlap: {title}", solved))
        records += [
            figure
            for figure in (_attempts(panel, number, labels), _actions(panel, number, labels))
            if figure.series
        ]
    return records


def _bars(name: str, arms: Sequence[ArmMetrics], labels: Labels, value: Value) -> Figure:
    """One series per pair of models, one label per variant; pass rates with intervals."""
    series: dict[str, list[Point]] = {}
    for m in arms:
        found = value(m)
        if found is not None:
            ends = (m.pass_low, m.pass_high) if name == "pass_rate" else (None, None)
            point = Point(labels.variant(m.arm.variant), found, *ends)
            series.setdefault(labels.models(m.arm, m.scripted), []).append(point)
    listed = tuple(Series(models, tuple(points)) for models, points in series.items())
    title = name.replace("_", " ").capitalize()
    return Figure(name, title, TABLES_1, "Variant", "% of rollouts", listed)


def _main_and_sub(
    name: str, arms: Sequence[ArmMetrics], labels: Labels, main: Value, sub: Value
) -> Figure:
    """Stacked costs of main agents and subagents."""
    series = tuple(
        Series(who, tuple(Point(_label(m, labels), value(m)) for m in arms))
        for who, value in (("main", main), ("sub", sub))
    )
    return Figure(
        name,
        f"{name.capitalize()} of main agent and subagent",
        TABLES_1,
        "Arm",
        f"{name.capitalize()} a rollout",
        series,
        FigureKind.STACKED,
        "Averages over all rollouts; the tables' are over those that called the subagent.",
    )


def _overlap(name: str, title: str, solved: Solved) -> Figure:
    """Each system's bugs: those that only it resolved, and those that others also resolved."""
    places = {who: standing(who, solved) for who in solved}
    alone = tuple(Point(who, place.unique) for who, place in places.items())
    shared = tuple(Point(who, place.solved - place.unique) for who, place in places.items())
    return Figure(
        name,
        title,
        "InspectCoder, figure 6",
        "System",
        "Bugs resolved",
        (Series("only it", alone), Series("others too", shared)),
        FigureKind.STACKED,
    )


def _attempts(panel: Panel, number: int, labels: Labels) -> Figure:
    series = []
    for system in panel.systems:
        found = [
            (str(most), resolved_within(system.rollouts, most))
            for most in range(1, most_attempts(panel) + 1)
        ]
        points = [
            Point(most, percent(count, len(system.rollouts)))
            for most, count in found
            if count is not None
        ]
        if points and system.variant not in ABLATIONS:
            series.append(Series(labels.variant(system.variant), tuple(points)))
    return Figure(
        f"fig7_patch_attempts_{number}",
        f"Resolve rate by number of patches: {panel.title(labels)}",
        "InspectCoder, figure 7",
        "Patches, at most",
        "% of rollouts",
        tuple(series),
    )


def _actions(panel: Panel, number: int, labels: Labels) -> Figure:
    """One series per system and outcome."""
    series = []
    for system in panel.systems:
        found = frequencies(system.rollouts)
        for outcome in OUTCOMES if found else ():
            points = [
                Point(action, frequency.per_task)
                for action, frequency in found[outcome].items()
                if action != ALL
            ]
            name = f"{labels.variant(system.variant)}: {outcome}"
            series.append(Series(name, tuple(points)))
    return Figure(
        f"fig8_actions_{number}",
        f"Actions a rollout: {panel.title(labels)}",
        "InspectCoder, figure 8",
        "Action",
        "Calls a rollout",
        tuple(series),
    )


def _label(metrics: ArmMetrics, labels: Labels) -> str:
    models = labels.models(metrics.arm, metrics.scripted)
    return f"{labels.variant(metrics.arm.variant)}, {models}"


def _sub_steps(metrics: ArmMetrics) -> float | None:
    return metrics.sub_steps_all


def _sub_tokens(metrics: ArmMetrics) -> float | None:
    return metrics.sub_tokens_all


def _total(main: float | None, sub: float | None) -> float | None:
    return None if main is None else main + (sub or 0.0)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _cents(dollars: float | None) -> float | None:
    return 100 * dollars if dollars else None


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
        with rollouts_batch(self._runtime, benchmark, specs, identity, self._folder) as batch:
            return batch.preflight()

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
