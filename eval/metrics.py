"""The papers' metrics, one set of numbers per arm (Debug2Fix, section 5.3; InspectCoder, 3.3), and
how tables write and name them.

A rollout that failed because of the infrastructure or the budget says nothing about its models: it
counts as excluded and is in no rate or average. A model failure is judged like any other rollout,
by the patch that the model left.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collect import quantities
from collect.agents.systems import SYSTEMS, names_of
from collect.config import RuntimeConfig
from collect.errors import FailureKind
from collect.models.config import ManualConfig, OracleConfig
from collect.question_records import SOURCE_READER
from collect.questions.asking import VARIANT as QUESTIONS
from collect.store.records import ORACLE_TEACHER, Rollout

Z95 = 1.959963984540054


def wilson(rate: float, trials: float) -> tuple[float, float]:
    """Wilson's 95 % score interval for a rate in 0..1 over `trials` > 0 independent trials."""
    z = Z95
    centre = rate + z * z / (2 * trials)
    spread = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def clustered_wilson(clusters: Collection[Sequence[bool]]) -> tuple[float, float]:
    """Wilson's 95 % interval for the mean over all trials, which may depend on each other within a
    cluster.

    Uses the effective number of trials, rate * (1 - rate) / variance, with the variance of the mean
    between clusters (the ratio estimator of survey sampling); it lies between the number of
    clusters and the number of trials. With one trial per cluster this is `wilson`.
    """
    trials = sum(len(cluster) for cluster in clusters)
    rate = sum(sum(cluster) for cluster in clusters) / trials
    count, spread = len(clusters), rate * (1 - rate)
    effective = float(count)
    if count > 1 and spread > 0:
        residuals = (sum(cluster) - rate * len(cluster) for cluster in clusters)
        variance = count / (count - 1) * sum(r * r for r in residuals) / trials**2
        effective = min(trials, max(count, spread / variance if variance else trials))
    return wilson(rate, effective)


InstanceKey = tuple[str, str]
"""Benchmark and instance id."""
AttemptKey = tuple[InstanceKey, int]
"""A bug and the number of the attempt, which is also the number of its seed."""
Facts = dict[str, Any]
"""One row of plain numbers, by column."""

IN_TERMINALS = names_of(lambda system: system.debugging == "terminal")
"""Variants whose debugger is a raw terminal: no event records where it stopped."""
INSPECTCODERS = names_of(lambda system: system.family == "inspectcoder")
"""Variants in InspectCoder's tables; all others are in Debug2Fix's."""
ABLATIONS = names_of(lambda system: system.is_ablation)


@dataclass(frozen=True, order=True)
class Arm:
    """The unit of comparison: a variant with its models."""

    variant: str
    main_model: str
    sub_model: str
    """Empty if the variant has no subagent."""


@dataclass(frozen=True)
class Seconds:
    """Wall time of a rollout's parts, from its conversations."""

    sub: float
    """Completions and tools of the debugging agents."""
    debugger: float
    """What the debugger took to answer, whichever agent asked it."""


@dataclass(frozen=True)
class ArmMetrics:
    """The numbers of one arm. None if there is nothing to average over."""

    arm: Arm
    scripted: bool
    """Whether one of its models is the oracle, which knows the gold patch."""
    rollouts: int
    """Rollouts with a verdict, at the attempts that all arms share; the base of every rate and
    average below."""
    instances: int
    resolved: int
    tampered: int
    """Rollouts whose code interfered with the test run; they are not resolved."""
    pass_rate: float | None
    """Percent that resolved their bug: Debug2Fix's pass rate, InspectCoder's resolve rate."""
    pass_low: float | None
    """95 % Wilson interval of the pass rate in percent, clustered by bug or repository."""
    pass_high: float | None
    call_rate: float | None
    """Percent of rollouts that called the subagent; None without a subagent."""
    main_steps: float | None
    """Average completions of the main agent per rollout."""
    sub_steps: float | None
    """Average completions of the subagents per rollout that called one."""
    sub_steps_all: float | None
    """Average completions of the subagents over all rollouts; None without a subagent."""
    main_tokens: float | None
    """Average input and output tokens of the main agent per rollout."""
    sub_tokens: float | None
    """Average input and output tokens of the subagents per rollout that called one."""
    sub_tokens_all: float | None
    """Average tokens of the subagents over all rollouts; None without a subagent."""
    dollars: float
    """Total spent, also by rollouts that are in no rate."""
    dollars_per_rollout: float | None
    main_dollars: float | None
    """Average dollars of the main agent per rollout."""
    sub_dollars: float | None
    """Average dollars of the subagents per rollout that called one."""
    dollars_per_fix: float | None
    """Dollars of the rollouts with a verdict, divided by the number resolved; None if that is 0."""
    fixes_per_dollar: float | None
    """The inverse; None if nothing was spent."""
    seconds: float | None
    """Average wall time per rollout, scoring included."""
    debug_seconds: float | None
    """Average wall time per rollout, without scoring."""
    main_seconds: float | None
    """The part of it that is not the subagents'."""
    sub_seconds: float | None
    """Average wall time of the subagents per rollout that called one."""
    fixes_per_hour: float | None
    """Rollouts that resolved their bug per hour of debug time, over all rollouts with a verdict."""
    debug_success: float | None
    """Percent of the rollouts calling a debug tool in which the program stopped at least once; None
    if none called one, or for a raw terminal, whose stops are not counted."""
    invalid_tool_calls: int
    refused_tool_calls: int
    failures: Mapping[str, int]
    """Number of failed rollouts, by kind."""
    excluded: int
    """Number of rollouts without a verdict: infrastructure and budget failures."""


@dataclass(frozen=True)
class Comparison:
    """Arms compared on the same attempts at the same instances."""

    arms: tuple[ArmMetrics, ...]
    """In the order of the papers' tables."""
    instances: tuple[InstanceKey, ...]
    """The instances on which all arms are measured."""
    attempts: frozenset[AttemptKey]
    """The attempts at those instances for which all arms have a verdict."""
    left_out: tuple[InstanceKey, ...]
    """Instances for which some arm has a verdict, but no attempt has one in all arms."""
    attempts_left_out: int
    """Attempts at `instances` for which some arms have a verdict and others don't."""
    baseline: str
    """The variant that relative changes refer to."""
    cluster: str
    """What the intervals take as independent: bug or repository."""
    trained_on: tuple[InstanceKey, ...] = ()
    """The instances whose repository is in the run's training data."""
    skipped: str = ""
    """Text about the instances that were skipped because of a verification's marks."""

    def baseline_of(self, arm: Arm) -> ArmMetrics | None:
        """The baseline with the arm's main model; None if there is none, or that is the arm."""
        for m in self.arms if arm.variant != self.baseline else ():
            if m.arm.variant == self.baseline and m.rollouts and m.arm.main_model == arm.main_model:
                return m
        return None


def compare(
    rollouts: Iterable[Rollout],
    baseline: str = "baseline",
    cluster: str = "bug",
    seconds: Mapping[str, Seconds] | None = None,
) -> Comparison:
    """The metrics of every arm, on the attempts for which all arms have a verdict.

    An arm without any verdict is listed, but does not affect the choice of attempts. `cluster` is
    that of the statistics: bug or repository. `seconds` are by rollout id.
    """
    seconds = seconds or {}
    by_arm: dict[Arm, list[Rollout]] = defaultdict(list)
    for rollout in rollouts:
        by_arm[arm_of(rollout)].append(rollout)
    judged_attempts = [
        frozenset(attempt_of(row) for row in rows if has_verdict(row)) for rows in by_arm.values()
    ]
    covered = [attempts for attempts in judged_attempts if attempts]
    every = frozenset[AttemptKey]().union(*covered)
    common = every.intersection(*covered)
    partly = every - common
    instances = {instance for instance, _ in common}
    return Comparison(
        arms=tuple(
            arm_metrics(arm, by_arm[arm], common, cluster, seconds) for arm in ordered(by_arm)
        ),
        instances=tuple(sorted(instances)),
        attempts=common,
        left_out=tuple(sorted({instance for instance, _ in partly} - instances)),
        attempts_left_out=sum(instance in instances for instance, _ in partly),
        baseline=baseline,
        cluster=cluster,
    )


def arm_of(rollout: Rollout) -> Arm:
    return Arm(rollout.variant, rollout.main_model, rollout.sub_model)


def instance_of(rollout: Rollout) -> InstanceKey:
    """The bug of a rollout, unique across benchmarks."""
    return (rollout.benchmark, rollout.instance_id)


def attempt_of(rollout: Rollout) -> AttemptKey:
    return (instance_of(rollout), rollout.attempt)


def has_verdict(rollout: Rollout) -> bool:
    """Whether the rollout says something about its models."""
    return rollout.failure_kind in (None, FailureKind.MODEL)


def judged(rollouts: Iterable[Rollout], attempts: Collection[AttemptKey]) -> list[Rollout]:
    """The rollouts of these attempts that have a verdict: the base of all rates."""
    return [row for row in rollouts if has_verdict(row) and attempt_of(row) in attempts]


def model_pairs(arms: Iterable[Arm]) -> list[tuple[str, str]]:
    """Main and sub model of each column; a variant without subagent joins its main model's."""
    pairs = sorted({(arm.main_model, arm.sub_model) for arm in arms})
    with_sub = {main for main, sub in pairs if sub}
    return [(main, sub) for main, sub in pairs if sub or main not in with_sub]


def change(value: float | None, base: float | None) -> float | None:
    """The relative change in percent of the base; None if one is missing or the base is 0."""
    if value is None or not base:
        return None
    return 100 * (value - base) / base


def cluster_of(bug: tuple[str, ...], cluster: str) -> Any:
    """What a bug is counted with: itself, or all bugs of its repository, its last part."""
    return bug[-1] if cluster == "repository" else bug


def arm_metrics(
    arm: Arm,
    rollouts: Sequence[Rollout],
    attempts: Collection[AttemptKey],
    cluster: str,
    seconds: Mapping[str, Seconds],
) -> ArmMetrics:
    """The metrics of one arm's rollouts; rates and averages are over the given attempts only."""
    rows = judged(rollouts, attempts)
    called = [row for row in rows if row.sub_calls]
    debugged = [row for row in rows if row.debug_calls and row.variant not in IN_TERMINALS]
    resolved = sum(row.resolved for row in rows)
    dollars = sum(row.dollars for row in rows)
    debug_seconds = sum(row.seconds - row.scoring_seconds for row in rows)
    timed = [row for row in rows if row.rollout_id in seconds]
    sub_seconds = sum(seconds[row.rollout_id].sub for row in timed)
    main_seconds = sum(row.seconds - row.scoring_seconds for row in timed) - sub_seconds
    clusters = defaultdict[Any, list[bool]](list)
    for row in rows:
        clusters[cluster_of((*instance_of(row), row.repository), cluster)].append(row.resolved)
    ends = clustered_wilson(clusters.values()) if rows else None
    has_subagent = bool(arm.sub_model or called)
    return ArmMetrics(
        arm=arm,
        scripted=any(row.teacher == ORACLE_TEACHER for row in rollouts),
        rollouts=len(rows),
        instances=len({instance_of(row) for row in rows}),
        resolved=resolved,
        tampered=sum(row.tampered is not None for row in rows),
        pass_rate=percent(resolved, len(rows)),
        pass_low=100 * ends[0] if ends else None,
        pass_high=100 * ends[1] if ends else None,
        call_rate=percent(len(called), len(rows)) if has_subagent else None,
        main_steps=mean([row.main_steps for row in rows]),
        sub_steps=mean([row.sub_steps for row in called]),
        sub_steps_all=mean([row.sub_steps for row in rows]) if has_subagent else None,
        main_tokens=mean([row.main_tokens for row in rows]),
        sub_tokens=mean([row.sub_tokens for row in called]),
        sub_tokens_all=mean([row.sub_tokens for row in rows]) if has_subagent else None,
        dollars=sum(row.dollars for row in rollouts),
        dollars_per_rollout=ratio(dollars, len(rows)),
        main_dollars=mean([row.dollars - row.sub_dollars for row in rows]),
        sub_dollars=mean([row.sub_dollars for row in called]),
        dollars_per_fix=ratio(dollars, resolved),
        fixes_per_dollar=ratio(resolved, dollars),
        seconds=mean([row.seconds for row in rows]),
        debug_seconds=ratio(debug_seconds, len(rows)),
        main_seconds=ratio(main_seconds, len(timed)),
        sub_seconds=ratio(sub_seconds, sum(row.sub_calls > 0 for row in timed)),
        fixes_per_hour=ratio(3600 * resolved, debug_seconds),
        debug_success=percent(sum(row.debug_stops > 0 for row in debugged), len(debugged)),
        invalid_tool_calls=sum(row.invalid_tool_calls for row in rows),
        refused_tool_calls=sum(row.refused_tool_calls for row in rows),
        failures=dict(Counter(row.failure_kind.value for row in rollouts if row.failure_kind)),
        excluded=sum(not has_verdict(row) for row in rollouts),
    )


def percent(part: float, whole: float) -> float | None:
    """A share in percent; None if the whole is 0."""
    return ratio(100 * part, whole)


def ratio(part: float, whole: float) -> float | None:
    """A quotient; None if the whole is 0."""
    return part / whole if whole else None


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


MISSING = "-"


def decimal(value: float | None, form: str = "{:.1f}") -> str:
    """A number in `form`: with one decimal if nothing else is given."""
    return MISSING if value is None else form.format(value)


def tokens(value: float | None) -> str:
    """Tokens: 640, 15.2k, 347k, 1.55M."""
    return MISSING if value is None else quantities.tokens(value)


def dollars(value: float | None) -> str:
    """Dollars: $0.0400, $12.30."""
    return MISSING if value is None else quantities.dollars(value)


def bracket(percent: float | None) -> str:
    """A relative change in brackets, with a leading space; empty if there is none."""
    if percent is None:
        return ""
    return f" ({percent:+.0f}%)" if abs(percent) >= 99.95 else f" ({percent:+.1f}%)"


def span(low: float | None, high: float | None) -> str:
    """The two ends of an interval: 52.1-68.0."""
    return MISSING if low is None or high is None else f"{low:.1f}-{high:.1f}"


def counts(numbers: Mapping[str, int]) -> str:
    """Counts by name: budget 1, model 2."""
    return ", ".join(f"{name} {number}" for name, number in sorted(numbers.items())) or MISSING


@dataclass(frozen=True)
class Labels:
    scripted: Collection[str] = ("oracle",)
    """Names of the models that are the oracle."""
    played: Collection[str] = ()
    """Names of the models that are played by hand."""

    def variant(self, variant: str) -> str:
        return SYSTEMS[variant].title if variant in SYSTEMS else variant

    def models(self, arm: Arm, scripted: bool) -> str:
        """`main → sub`, a single name if both are the same; scripted and played ones are marked."""
        names = list(dict.fromkeys(name for name in (arm.main_model, arm.sub_model) if name))
        known = [name for name in names if name in self.scripted]
        # An arm recorded as scripted is marked even if no name tells which model it is.
        marked = known if known or not scripted else names
        marks = dict.fromkeys(self.played, " (played)") | dict.fromkeys(marked, " (scripted)")
        marks[SOURCE_READER] = " (runs nothing)"
        return " → ".join(name + marks.get(name, "") for name in names)

    def name(self, arm: Arm, scripted: bool) -> str:
        """`Variant, main → sub`; of a subagent that is asked alone only the model."""
        models = self.models(arm, scripted)
        return models if arm.variant == QUESTIONS else f"{self.variant(arm.variant)}, {models}"

    def arm(self, metrics: ArmMetrics) -> tuple[str, str]:
        return self.variant(metrics.arm.variant), self.models(metrics.arm, metrics.scripted)

    def pair(self, pair: tuple[str, str], arms: Iterable[ArmMetrics]) -> str:
        """As `models`, for the main and sub model of a column, which at least one arm has."""
        own = [m for m in arms if (m.arm.main_model, m.arm.sub_model) == pair]
        return self.models(own[0].arm, any(m.scripted for m in own))


def labels_of(runtime: RuntimeConfig) -> Labels:
    models = runtime.models.items()
    return Labels(
        scripted=[name for name, model in models if isinstance(model, OracleConfig)],
        played=[name for name, model in models if isinstance(model, ManualConfig)],
    )


PLACES = {variant: place for place, variant in enumerate(SYSTEMS)}


def in_order(variants: Iterable[str]) -> list[str]:
    """The distinct variants in the order of the papers' tables, unknown ones last."""
    return sorted(set(variants), key=lambda each: (PLACES.get(each, len(PLACES)), each))


def ordered(arms: Iterable[Arm]) -> list[Arm]:
    """The arms in the order of the papers' tables."""
    return sorted(arms, key=lambda arm: (PLACES.get(arm.variant, len(PLACES)), arm))
