"""InspectCoder's tables: 1 and 2, per benchmark and pair of models, and 3, over all pairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from collect.benchmarks.base import Benchmark
from collect.benchmarks.self_repair.benchmark import Card, SelfRepairBenchmark, read_card
from collect.store.files import card_path
from collect.store.records import Rollout
from eval.metrics import (
    MISSING,
    REPAIR_NAMES,
    Arm,
    ArmMetrics,
    Comparison,
    Facts,
    InstanceKey,
    Labels,
    arm_metrics,
    arm_of,
    decimal,
    in_order,
    judged,
    model_pairs,
    span,
)


def full_set_of(benchmark: Benchmark) -> Card | None:
    """All problems behind the benchmark's bugs, solved ones included (InspectCoder, section 3.2),
    from its card; None if there is no card, or no problem was tried.

    Raises ConfigError if the card is broken.
    """
    if not isinstance(benchmark, SelfRepairBenchmark) or not card_path(benchmark.path).is_file():
        return None
    card = read_card(benchmark.path)
    return card if card.problems else None


@dataclass(frozen=True)
class System:
    metrics: ArmMetrics
    rollouts: tuple[Rollout, ...]
    """The rollouts behind the rates: with a verdict, at attempts that all arms share."""

    @property
    def variant(self) -> str:
        return self.metrics.arm.variant


@dataclass(frozen=True)
class Panel:
    """The systems of one table, in the paper's order: one benchmark, one pair of models."""

    benchmark: str
    pair: tuple[str, str]
    """Main and sub model; a system without a subagent only has the main model."""
    systems: tuple[System, ...]
    instances: frozenset[InstanceKey]
    """The bugs on which all systems are measured."""
    full_set: Card | None

    def models(self, labels: Labels) -> str:
        return labels.pair(self.pair, [system.metrics for system in self.systems])

    def title(self, labels: Labels) -> str:
        return f"{self.benchmark_name}, {self.models(labels)}"

    @property
    def benchmark_name(self) -> str:
        """The benchmark and its bugs' source: self_repair (bigcodebench)."""
        source = self.full_set.source if self.full_set else ""
        return f"{self.benchmark} ({source})" if source else self.benchmark

    @property
    def is_estimate(self) -> bool:
        """Whether the full set has bugs that were not measured."""
        return self.full_set is not None and len(self.instances) < self.full_set.bugs


def panels_of(
    comparison: Comparison, rollouts: Iterable[Rollout], full_sets: Mapping[str, Card]
) -> tuple[Panel, ...]:
    """All panels for the comparison's rollouts.

    Uses the comparison's attempts, so that its numbers and the panels' agree. `full_sets` is by
    benchmark; some may be missing.
    """
    by_benchmark: dict[str, dict[Arm, list[Rollout]]] = defaultdict(lambda: defaultdict(list))
    for rollout in rollouts:
        if rollout.variant in REPAIR_NAMES:
            by_benchmark[rollout.benchmark][arm_of(rollout)].append(rollout)
    panels = []
    for benchmark, by_arm in sorted(by_benchmark.items()):
        systems = {
            arm: System(
                arm_metrics(arm, rows, comparison.attempts),
                tuple(judged(rows, comparison.attempts)),
            )
            for arm, rows in by_arm.items()
        }
        instances = frozenset(key for key in comparison.instances if key[0] == benchmark)
        for main, sub in model_pairs(by_arm):
            present = {
                arm.variant: system
                for arm, system in sorted(systems.items(), key=lambda item: item[0])
                if arm.main_model == main and arm.sub_model in (sub, "")
            }
            ordered = tuple(present[variant] for variant in in_order(present))
            panel = Panel(benchmark, (main, sub), ordered, instances, full_sets.get(benchmark))
            panels.append(panel)
    return tuple(panels)


COLUMNS: dict[str, Callable[[ArmMetrics], str]] = {
    "Resolve Rate": lambda m: _percent(m.pass_rate),
    "Debug Time": lambda m: decimal(m.debug_seconds, "{:.2f}s"),
    "#Fixes/Hour": lambda m: decimal(m.fixes_per_hour, "{:.2f}"),
    "Debug Cost": lambda m: decimal(m.dollars_per_rollout or None, "${:.4f}"),
    "#Fixes/Dollar": lambda m: decimal(m.fixes_per_dollar, "{:.2f}"),
    "Resolved": lambda m: f"{m.resolved}/{m.rollouts}",
    "95 %": lambda m: span(m.pass_low, m.pass_high),
}
"""The last two are not in the paper: the numbers behind the resolve rate, and its interval."""
NOTHING = ("0.00%", "0.00s", "0.00", "$0.0000", "0.00", "", "")
"""The values of those columns without any repair: nothing is resolved and nothing is spent."""
MODEL_COLUMNS = ("Resolve Rate", "#Fixes/Hour")
"""The columns of table 3."""


def repair_table(panel: Panel, labels: Labels) -> list[list[str]]:
    """Table 1 or 2: the first solutions, then one row per system; the best resolve rate is bold."""
    full_set = panel.full_set
    rates = [s.metrics.pass_rate for s in panel.systems if s.metrics.pass_rate is not None]
    best = max(rates) if len(rates) > 1 else None
    name, passed = "One-pass generation", [MISSING, MISSING]
    if full_set is not None:
        name += " (scripted)" if full_set.scripted else ""
        passed = [_percent(full_set.first_pass_rate), "+0.00%"]
    rows = [["Method", "Pass Rate", "ΔPass Rate", *COLUMNS], [name, *passed, *NOTHING]]
    mark = "~" if panel.is_estimate else ""
    for system in panel.systems:
        rate = system.metrics.pass_rate
        passed = [MISSING, MISSING]
        if full_set is not None and rate is not None:
            gain = decimal(full_set.gain(rate), "{:+.2f}%")
            passed = [mark + _percent(full_set.first_pass_rate + full_set.gain(rate)), mark + gain]
        texts = [text(system.metrics) for text in COLUMNS.values()]
        if rate and rate == best:
            texts[0] = f"**{texts[0]}**"
        rows.append([labels.variant(system.variant), *passed, *texts])
    return rows


def models_table(panels: Sequence[Panel], labels: Labels) -> list[list[str]]:
    heads = [head for panel in panels for head in (panel.models(labels), "")]
    rows = [["Method", *heads], ["", *MODEL_COLUMNS * len(panels)]]
    by_variant = [{system.variant: system.metrics for system in each.systems} for each in panels]
    for variant in in_order(variant for found in by_variant for variant in found):
        row = [labels.variant(variant)]
        for found in by_variant:
            for column in MODEL_COLUMNS:
                row.append(COLUMNS[column](found[variant]) if variant in found else MISSING)
        rows.append(row)
    return rows


def by_benchmark(panels: Iterable[Panel]) -> list[list[Panel]]:
    return [list(group) for _, group in groupby(panels, key=lambda panel: panel.benchmark)]


def repair_facts(panel: Panel) -> list[Facts]:
    """The table's numbers, one row per system, after one for the first solutions if known.

    Rates are in percent, times in seconds.
    """
    full_set = panel.full_set
    rows: list[Facts] = []
    for system in panel.systems:
        m = system.metrics
        rate = m.pass_rate or 0.0
        known = full_set if m.pass_rate is not None else None
        rows.append(
            {
                "benchmark": panel.benchmark,
                "variant": system.variant,
                "main_model": m.arm.main_model,
                "sub_model": m.arm.sub_model,
                "scripted": m.scripted,
                "bugs": m.instances,
                "rollouts": m.rollouts,
                "resolved": m.resolved,
                "pass_rate": known.first_pass_rate + known.gain(rate) if known else None,
                "pass_gain": known.gain(rate) if known else None,
                "pass_rate_is_estimate": panel.is_estimate if known else None,
                "resolve_rate": m.pass_rate,
                "resolve_low": m.pass_low,
                "resolve_high": m.pass_high,
                "debug_seconds": m.debug_seconds,
                "fixes_per_hour": m.fixes_per_hour,
                "dollars_per_rollout": m.dollars_per_rollout,
                "fixes_per_dollar": m.fixes_per_dollar,
            }
        )
    if full_set is None or not rows:
        return rows
    first = dict.fromkeys(rows[0]) | {
        "benchmark": panel.benchmark,
        "variant": "one_pass_generation",
        "main_model": full_set.writer,
        "scripted": full_set.scripted,
        "pass_rate": full_set.first_pass_rate,
        "pass_gain": 0.0,
    }
    return [first, *rows]


def repair_foot(panels: Sequence[Panel], labels: Labels) -> list[str]:
    """Notes for readers of InspectCoder's tables, one or two sentences per line."""
    lines = [
        "Resolve Rate: rollouts whose last patch passes all tests, public and private; Pass % of "
        "the other tables.",
        "Debug Time: average wall time of a rollout, without scoring; what runs at once makes it "
        "longer. #Fixes/Hour: bugs resolved in an hour of it.",
    ]
    lines += [_full_set_note(group[0]) for group in by_benchmark(panels)]
    arms = [system.metrics for panel in panels for system in panel.systems]
    free = [m for m in arms if m.rollouts and not m.dollars_per_rollout]
    if free:
        lines.append(
            "Debug Cost and #Fixes/Dollar are - where no dollars were spent: the oracle is free, "
            "and a model without `prices` in the config costs nothing that is known "
            f"({', '.join(dict.fromkeys(labels.arm(m)[1] for m in free))})."
        )
    return lines


def _full_set_note(panel: Panel) -> str:
    full_set = panel.full_set
    if full_set is None:
        return (
            f"Pass Rate and ΔPass Rate of {panel.benchmark} are -: the benchmark does not say how "
            "many problems its bugs are from, and how many of them the first solution passed."
        )
    author = f" by {full_set.writer}" if full_set.writer else ""
    if full_set.scripted:
        author = " by the oracle (scripted), which breaks correct programs on purpose,"
    text = (
        f"Pass Rate: over all {full_set.problems} problems of {panel.benchmark_name}, of which the "
        f"first solution{author} passed {full_set.passed}; {full_set.bugs} of the rest are bugs."
    )
    if panel.is_estimate:
        text += (
            f" ~: an estimate, as if all of its bugs were resolved at the rate of the "
            f"{len(panel.instances)} that were measured."
        )
    return text


def _percent(value: float | None) -> str:
    return decimal(value, "{:.2f}%")
