"""The collect stage: from a benchmark to the run's rollouts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from collect.benchmarks.base import Benchmark, Instance
from collect.benchmarks.choosing import open_chosen, tell_skipped
from collect.config import CollectConfig, Machinery
from collect.held_out import HeldOutConfig, refuse_held_out
from collect.preflight.checks import Finding
from collect.rollout import RolloutSpec
from collect.rollout_rows import RunIdentity
from collect.rollouts import RolloutsSummary, do_rollouts, look_before_rollouts


def run_collect(
    machinery: Machinery,
    config: CollectConfig,
    run: Path,
    held_out: HeldOutConfig | None = None,
) -> RolloutsSummary:
    """Do the rollouts that the run folder does not have yet.

    Raises ConfigError, also where a bug is one of `held_out`.
    """
    benchmark, specs = _asked_for(machinery, config, run, held_out)
    return do_rollouts(machinery, benchmark, specs, RunIdentity(run.name, machinery.seed), run)


def look_before_collect(
    machinery: Machinery,
    config: CollectConfig,
    run: Path,
    held_out: HeldOutConfig | None = None,
) -> list[Finding]:
    """What a start of collect looks at first; no rollout is done. Raises ConfigError."""
    benchmark, specs = _asked_for(machinery, config, run, held_out)
    identity = RunIdentity(run.name, machinery.seed)
    return look_before_rollouts(machinery, benchmark, specs, identity, run)


def _asked_for(
    machinery: Machinery, config: CollectConfig, run: Path, held_out: HeldOutConfig | None
) -> tuple[Benchmark, list[RolloutSpec]]:
    benchmark, choice = open_chosen(config.benchmark, machinery.sandbox)
    refuse_held_out(choice.instances, held_out or HeldOutConfig())
    specs = collect_specs(config, choice.instances)
    for name in {config.main, config.sub}:
        machinery.model_config_of(name)
    tell_skipped(choice, run)
    return benchmark, specs


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
