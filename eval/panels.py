"""The systems in one of InspectCoder's tables: one benchmark, one pair of models."""

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
    """The rollouts behind the rates: with a verdict, at attempts that all arms share."""

    @property
    def variant(self) -> str:
        return self.metrics.arm.variant


@dataclass(frozen=True)
class Panel:
    """The systems of one table, in the paper's order."""

    benchmark: str
    pair: tuple[str, str]
    """Main and sub model; a system without a subagent only has the main model."""
    systems: tuple[System, ...]
    instances: frozenset[InstanceKey]
    """The bugs on which all systems are measured."""
    full_set: FullSet | None

    def models(self, labels: Labels) -> str:
        """Its models' names in the tables."""
        return labels.pair(self.pair, [system.metrics for system in self.systems])

    def title(self, labels: Labels) -> str:
        """Its benchmark and models."""
        return f"{self.benchmark_name}, {self.models(labels)}"

    @property
    def benchmark_name(self) -> str:
        """The benchmark and its bugs' source: self_repair (bigcodebench)."""
        source = self.full_set.source if self.full_set else ""
        return f"{self.benchmark} ({source})" if source else self.benchmark

    def facts(self, variant: str) -> Facts:
        """The columns that identify the system of a row."""
        arm = next(system.metrics.arm for system in self.systems if system.variant == variant)
        models: Facts = {"main_model": arm.main_model, "sub_model": arm.sub_model}
        return {"benchmark": self.benchmark, "variant": variant} | models


def is_repair(variant: str) -> bool:
    """Whether the variant has a row in InspectCoder's tables; else it is in Debug2Fix's."""
    return variant in REPAIR_NAMES


def panels_of(
    comparison: Comparison, rollouts: Iterable[Rollout], full_sets: Mapping[str, FullSet]
) -> tuple[Panel, ...]:
    """All panels for the comparison's rollouts.

    Uses the comparison's attempts, so that its numbers and the panels' agree. `full_sets` is by
    benchmark; some may be missing.
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
