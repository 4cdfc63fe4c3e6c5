"""The collect stage: from a benchmark to the run's rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collect.benchmarks.base import Instance
from collect.benchmarks.choosing import choose_instances, tell_skipped
from collect.benchmarks.opening import open_benchmark
from collect.config import CollectConfig, Machinery
from collect.held_out import HeldOutConfig, refuse_held_out
from collect.rollout import RolloutSpec
from collect.rollout_rows import RunIdentity
from collect.rollouts import RolloutsSummary, do_rollouts


def run_collect(
    machinery: Machinery,
    config: CollectConfig,
    run: Path,
    held_out: HeldOutConfig | None = None,
) -> RolloutsSummary:
    """Do the rollouts that the run folder does not have yet.

    Raises ConfigError, also where a bug is one of `held_out`.
    """
    benchmark = open_benchmark(config.benchmark, machinery.sandbox)
    choice = choose_instances(config.benchmark, benchmark, machinery.sandbox)
    refuse_held_out(choice.instances, held_out or HeldOutConfig())
    specs = collect_specs(config, choice.instances)
    for name in {config.main, config.sub}:
        machinery.model_config_of(name)
    tell_skipped(choice, run)
    return do_rollouts(machinery, benchmark, specs, RunIdentity(run.name, machinery.seed), run)


def collect_specs(config: CollectConfig, instances: Sequence[Instance]) -> list[RolloutSpec]:
    """Every attempt, instance and variant; all first attempts come first."""
    return [
        RolloutSpec(
            instance, variant, config.main, config.sub if variant.has_subagent else None, attempt
        )
        for attempt in range(config.attempts)
        for instance in instances
        for variant in config.variants
    ]
