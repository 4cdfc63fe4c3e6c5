"""The systems that stand in one of InspectCoder's tables: one benchmark, one pair of models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from collect.store.records import Rollout
from eval.full_set import FullSet
from eval.labels import REPAIR_NAMES, Labels, in_order
from eval.metrics import (
    Arm,
    ArmMetrics,
    AttemptKey,
    Comparison,
    InstanceKey,
    arm_metrics,
    arm_of,
    judged,
    model_pairs,
)

Facts = dict[str, str | int | float | None]
"""One row of numbers, by column."""


@dataclass(frozen=True)
class System:
    """One row of a table."""

    metrics: ArmMetrics
    rollouts: tuple[Rollout, ...]
    """Those that the metrics' rates are of: with a verdict, at attempts that all arms share."""

    @property
    def variant(self) -> str:
        return self.metrics.arm.variant


@dataclass(frozen=True)
class Panel:
    """The systems of one table, in the paper's order."""

    benchmark: str
    pair: tuple[str, str]
    """Main and sub model; a system without a subagent is there with the main model alone."""
    systems: tuple[System, ...]
    instances: frozenset[InstanceKey]
    """The bugs that all systems are measured on."""
    full_set: FullSet | None

    def models(self, labels: Labels) -> str:
        """What the tables call its models."""
        return labels.pair(self.pair, [system.metrics for system in self.systems])

    def title(self, labels: Labels) -> str:
        """Its benchmark and models."""
        return f"{self.benchmark_name}, {self.models(labels)}"

    @property
    def benchmark_name(self) -> str:
        """The benchmark, and what its bugs are from: self_repair (bigcodebench)."""
        source = self.full_set.source if self.full_set else ""
        return f"{self.benchmark} ({source})" if source else self.benchmark

    def facts(self, variant: str) -> Facts:
        """What says to which system a row of numbers belongs."""
        arm = next(system.metrics.arm for system in self.systems if system.variant == variant)
        models: Facts = {"main_model": arm.main_model, "sub_model": arm.sub_model}
        return {"benchmark": self.benchmark, "variant": variant} | models


def is_repair(variant: str) -> bool:
    """Whether InspectCoder's tables have a row for the variant; else Debug2Fix's have."""
    return variant in REPAIR_NAMES


def panels_of(
    comparison: Comparison, rollouts: Iterable[Rollout], full_sets: Mapping[str, FullSet]
) -> tuple[Panel, ...]:
    """All panels of the rollouts that the comparison is of.

    The attempts are those of the comparison, so that its numbers and the panels' are the same.
    `full_sets` is by benchmark; one may be missing.
    """
    by_benchmark: dict[str, dict[Arm, list[Rollout]]] = defaultdict(lambda: defaultdict(list))
    for rollout in rollouts:
        if is_repair(rollout.variant):
            by_benchmark[rollout.benchmark][arm_of(rollout)].append(rollout)
    return tuple(
        _panel(benchmark, pair, by_arm, comparison, full_sets.get(benchmark))
        for benchmark, by_arm in sorted(by_benchmark.items())
        for pair in model_pairs(by_arm)
    )


def _panel(
    benchmark: str,
    pair: tuple[str, str],
    by_arm: Mapping[Arm, Sequence[Rollout]],
    comparison: Comparison,
    full_set: FullSet | None,
) -> Panel:
    instances = frozenset(key for key in comparison.instances if key[0] == benchmark)
    main = pair[0]
    arms = [arm for arm in by_arm if (arm.main_model, arm.sub_model) in (pair, (main, ""))]
    systems = {arm.variant: _system(arm, by_arm[arm], comparison.attempts) for arm in sorted(arms)}
    ordered = tuple(systems[variant] for variant in in_order(systems))
    return Panel(benchmark, pair, ordered, instances, full_set)


def _system(arm: Arm, rollouts: Sequence[Rollout], attempts: frozenset[AttemptKey]) -> System:
    return System(arm_metrics(arm, rollouts, attempts), tuple(judged(rollouts, attempts)))
