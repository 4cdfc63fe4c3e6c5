"""The eval stage: (main, sub) pairs of models on held-out bugs, and the papers' tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from collect.benchmarks.choosing import choose_instances, tell_skipped
from collect.benchmarks.config import BenchmarkConfig
from collect.benchmarks.opening import open_benchmark
from collect.config import Machinery
from collect.errors import ConfigError
from collect.models.config import OracleConfig
from collect.rollout import RolloutSpec
from collect.rollout_rows import RunIdentity
from collect.rollouts import RolloutsSummary, do_rollouts
from collect.store import RunStore
from eval.config import EvalConfig
from eval.full_set import full_set_of
from eval.labels import Labels
from eval.metrics import compare
from eval.output import TablePaths, write_tables
from eval.page import summary
from eval.panels import panels_of
from eval.training_data import note_training

FOLDER = "eval"


@dataclass(frozen=True)
class EvalReport:
    """What an evaluation came to."""

    rollouts: RolloutsSummary
    summary: str
    """The papers' tables, for a terminal."""
    tables: TablePaths


def run_eval(
    machinery: Machinery,
    config: EvalConfig,
    collected: BenchmarkConfig,
    run: Path,
    described: dict[str, Any],
) -> EvalReport:
    """Do the rollouts that `run/eval` does not have yet, and write the tables.

    `collected` is collect's benchmark: its held-out split is evaluated where the config names no
    benchmark. `described` is the whole config, noted beside the numbers. Raises ConfigError.
    """
    benchmark_config = config.benchmark or collected.model_copy(update={"split": "held_out"})
    if not config.arms():
        raise ConfigError("there is nothing to evaluate: set eval.pairs, e.g. [{main: a, sub: b}]")
    benchmark = open_benchmark(benchmark_config, machinery.sandbox)
    choice = choose_instances(benchmark_config, benchmark, machinery.sandbox)
    instances = choice.instances
    full_set = full_set_of(benchmark)
    specs = [
        RolloutSpec(instance, variant, main, sub, attempt)
        for attempt in range(config.attempts)
        for instance in instances
        for variant, main, sub in config.arms()
    ]
    folder = run / FOLDER
    tell_skipped(choice, folder)
    rollouts = do_rollouts(
        machinery, benchmark, specs, RunIdentity(run.name, machinery.seed), folder
    )
    asked = {spec.id for spec in specs}
    rows = [row for row in RunStore(folder).read_rollouts() if row.rollout_id in asked]
    comparison = note_training(compare(rows, config.baseline), instances, run)
    comparison = replace(comparison, skipped=str(choice))
    scripted = [n for n, model in machinery.models.items() if isinstance(model, OracleConfig)]
    labels = Labels(scripted=scripted)
    panels = panels_of(comparison, rows, {benchmark.name: full_set} if full_set else {})
    tables = write_tables(comparison, rows, folder, panels=panels, config=described, labels=labels)
    return EvalReport(rollouts, summary(comparison, labels, panels), tables)
