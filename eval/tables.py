"""The tables of a comparison: Debug2Fix's tables 1 and 2, InspectCoder's 1 to 3, and one row per
arm; and an evaluation's results as files: tables.md, CSV files, results.json, and the figures' CSV
files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from collect.benchmarks.base import Benchmark
from collect.benchmarks.self_repair.benchmark import Card, SelfRepairBenchmark, read_card
from collect.errors import FailureKind
from collect.markdown import plain
from collect.quantities import counted, first_of
from collect.store.files import card_path
from collect.store.records import Rollout
from eval.figures import Record, TablePaths, notes, parts, table, write_results
from eval.metrics import (
    INSPECTCODERS,
    MISSING,
    Arm,
    ArmMetrics,
    Comparison,
    Facts,
    InstanceKey,
    Labels,
    arm_of,
    bracket,
    change,
    counts,
    decimal,
    dollars,
    has_verdict,
    in_order,
    judged,
    model_pairs,
    span,
    tokens,
)
from eval.paired import PairedReport, paired_facts, paired_parts

SHOWN = 8
"""Most names of bugs in a note."""
Value = Callable[[ArmMetrics], float | None]
SECTIONS: tuple[tuple[str, tuple[str, str], Value, Value, Callable[[float | None], str]], ...] = (
    (
        "Pass & Call Rate (%)",
        ("Pass %", "Call %"),
        lambda m: m.pass_rate,
        lambda m: m.call_rate,
        decimal,
    ),
    ("Avg. Steps", ("Main", "Sub"), lambda m: m.main_steps, lambda m: m.sub_steps, decimal),
    (
        "Avg. Tokens (Input + Output)",
        ("Main", "Sub"),
        lambda m: m.main_tokens,
        lambda m: m.sub_tokens,
        tokens,
    ),
    ("Avg. Dollars", ("Main", "Sub"), lambda m: m.main_dollars, lambda m: m.sub_dollars, dollars),
    ("Avg. Seconds", ("Main", "Sub"), lambda m: m.main_seconds, lambda m: m.sub_seconds, decimal),
)
"""The blocks of the paper's table: title, columns of each pair of models, values, their text. The
paper has no dollars and seconds."""
OPTIONAL = ("Avg. Dollars", "Avg. Seconds")
"""Blocks that are left out if all is free, or no conversation tells the seconds."""

FLAT_COLUMNS: dict[str, Callable[[ArmMetrics], str]] = {
    "Bugs": lambda m: str(m.instances),
    "Rollouts": lambda m: str(m.rollouts),
    "Resolved": lambda m: str(m.resolved),
    "Tampered": lambda m: str(m.tampered),
    "Pass %": lambda m: decimal(m.pass_rate),
    "95 %": lambda m: span(m.pass_low, m.pass_high),
    "Call %": lambda m: decimal(m.call_rate),
    "Main steps": lambda m: decimal(m.main_steps),
    "Sub steps": lambda m: decimal(m.sub_steps),
    "Main tokens": lambda m: tokens(m.main_tokens),
    "Sub tokens": lambda m: tokens(m.sub_tokens),
    "$ total": lambda m: dollars(m.dollars),
    "$/rollout": lambda m: dollars(m.dollars_per_rollout),
    "Main $": lambda m: dollars(m.main_dollars),
    "Sub $": lambda m: dollars(m.sub_dollars),
    "Seconds": lambda m: decimal(m.debug_seconds),
    "Main seconds": lambda m: decimal(m.main_seconds),
    "Sub seconds": lambda m: decimal(m.sub_seconds),
    "$/fix": lambda m: dollars(m.dollars_per_fix),
    "Fixes/hour": lambda m: decimal(m.fixes_per_hour),
    "Debug success %": lambda m: decimal(m.debug_success),
    "Invalid calls": lambda m: str(m.invalid_tool_calls),
    "Refused calls": lambda m: str(m.refused_tool_calls),
    "Failures": lambda m: counts(m.failures),
    "Excluded": lambda m: str(m.excluded),
}
FLAT_NOTE = (
    "$ total, Failures and Excluded are of all rollouts; all else is of those with a verdict, at "
    "the attempts that all arms share. Seconds are without scoring."
)


def paper_table(comparison: Comparison, labels: Labels) -> list[list[str]]:
    """Rows, header first, in Markdown; the best pass rate of a pair of models is bold."""
    arms = {m.arm: m for m in comparison.arms}
    pairs = model_pairs(arms)
    variants = in_order(arm.variant for arm in arms)
    # A variant without a subagent is in every column of its main model.
    found = {
        (variant, pair): arms.get(Arm(variant, *pair)) or arms.get(Arm(variant, pair[0], ""))
        for variant in variants
        for pair in pairs
    }
    best: dict[tuple[str, str], float] = {}
    for pair in pairs:
        column = [m for m in (found[variant, pair] for variant in variants) if m is not None]
        rates = [m.pass_rate for m in column if m.pass_rate is not None]
        if len(rates) > 1:
            best[pair] = max(rates)
    heads = [head for pair in pairs for head in (labels.pair(pair, comparison.arms), "")]
    rows = [["Metric", *heads]]
    for title, columns, main, sub, text in SECTIONS:
        if not any(main(m) or sub(m) for m in comparison.arms) and title in OPTIONAL:
            continue
        rows.append([f"**{title}**", *[""] * len(heads)])
        rows.append(["", *columns * len(pairs)])
        for variant in variants:
            row = [labels.variant(variant)]
            for pair in pairs:
                metrics = found[variant, pair]
                if metrics is None:
                    row += [MISSING, MISSING]
                    continue
                value = main(metrics)
                baseline = comparison.baseline_of(metrics.arm)
                cell = text(value)
                if baseline is not None:
                    cell += bracket(change(value, main(baseline)))
                if title == SECTIONS[0][0] and value and value == best.get(pair):
                    cell = f"**{cell}**"
                row += [cell, text(sub(metrics))]
            rows.append(row)
    return rows


def flat_table(comparison: Comparison, labels: Labels) -> list[list[str]]:
    rows = [["Variant", "Models", *FLAT_COLUMNS]]
    for m in comparison.arms:
        rows.append([*labels.arm(m), *(text(m) for text in FLAT_COLUMNS.values())])
    return rows


def foot(comparison: Comparison, labels: Labels) -> list[str]:
    arms = comparison.arms
    most = max((m.rollouts for m in arms), default=0)
    bugs = counted(len(comparison.instances), "bug")
    lines = [f"n = {bugs}, up to {counted(most, 'rollout')} an arm."]
    if any(m.call_rate is not None for m in arms):
        lines.append("Sub: average over the rollouts that called the subagent.")
    if any(comparison.baseline_of(m.arm) for m in arms):
        name = labels.variant(comparison.baseline)
        lines.append(f"In brackets: change relative to {name} with the same main model.")
    cluster = comparison.cluster
    lines.append(f"95 %: Wilson interval of the rate of resolved rollouts, clustered by {cluster}.")
    if any(m.excluded for m in arms):
        counted_out = ", ".join(
            f"{m.excluded} of {' with '.join(labels.arm(m))}" for m in arms if m.excluded
        )
        lines.append(
            "Rollouts that failed because of the infrastructure or the budget have no verdict and "
            f"are in no rate and no average: {counted_out}. A model failure is judged by its patch."
        )
    if comparison.left_out:
        lines.append(
            "Warning: not every bug has an attempt for which all arms have a verdict. Rates and "
            f"averages are of the {len(comparison.instances)} bugs that all share; left out are "
            f"{len(comparison.left_out)}: {first_of([n for _, n in comparison.left_out], SHOWN)}."
        )
    if comparison.attempts_left_out:
        lines.append(
            "Warning: not every arm has a verdict for every attempt at these bugs. Rates and "
            f"averages are of the {len(comparison.attempts)} attempts that all arms share; left "
            f"out are {comparison.attempts_left_out}."
        )
    if comparison.skipped:
        lines.append(f"Of the benchmark, {comparison.skipped}, as `stepinto bench verify` marked.")
    if comparison.trained_on:
        lines.append(
            f"Warning: {len(comparison.trained_on)} of the bugs are of repositories in this run's "
            "training data, so that a model trained on it is not measured on unseen code: "
            f"{first_of([n for _, n in comparison.trained_on], SHOWN)}. Collect with "
            "collect.benchmark.split: train."
        )
    if any(m.scripted for m in arms):
        lines.append(
            "(scripted): the oracle is a scripted teacher that knows the gold patch; its numbers "
            "are not a model's result."
        )
    return lines


OUTCOME = (
    *("variant", "main_model", "sub_model", "benchmark", "instance_id", "attempt", "rollout_id"),
    *("instance_hash", "teacher", "resolved", "tampered", "failure_kind", "failure_type"),
    *("sub_calls", "debug_calls", "debug_stops", "main_steps", "sub_steps", "dollars"),
    *("sub_dollars", "patch_attempts", "seconds", "scoring_seconds"),
)
"""Fields of each rollout that results.json contains; it is ordered by the first ones."""
CHANGES = ("pass_rate", "main_steps", "main_tokens")
"""Metrics with a column for their change relative to the baseline, in percent."""


def write_tables(
    comparison: Comparison,
    rollouts: Iterable[Rollout],
    folder: Path,
    *,
    panels: Sequence[Panel] = (),
    paired: PairedReport | None = None,
    records: Sequence[Record] = (),
    config: Mapping[str, Any] | None = None,
    labels: Labels | None = None,
) -> TablePaths:
    """Write the tables of arms.

    `panels`, `paired` and `records` are those of the same rollouts; without them, their tables,
    statistics and figures are missing. `config` must be JSON-serialisable; it goes into
    results.json with the rollouts' outcomes.
    """
    labels = labels or Labels()
    arms = [arm_row(comparison, metrics) for metrics in comparison.arms]
    flat = [
        {name: value for name, value in row.items() if name != "failures"}
        | {f"{kind.value}_failures": row["failures"].get(kind.value, 0) for kind in FailureKind}
        for row in arms
    ]
    tables: dict[str, list[Facts]] = {}
    if panels:
        # A system without a subagent is in several panels.
        repair = {tuple(row.items()): row for panel in panels for row in repair_facts(panel)}
        tables["repair"] = list(repair.values())
    if paired:
        tables |= paired_facts(paired)
    outcomes = [
        {name: getattr(row, name) for name in OUTCOME} | {"verdict": has_verdict(row)}
        for row in rollouts
    ]
    named = ("benchmark", "instance_id")
    results = {
        "config": dict(config) if config is not None else None,
        "baseline": comparison.baseline,
        "notes": all_notes(comparison, labels, panels),
        "instances": [dict(zip(named, key, strict=True)) for key in comparison.instances],
        "left_out": [dict(zip(named, key, strict=True)) for key in comparison.left_out],
        "attempts_left_out": comparison.attempts_left_out,
        "arms": arms,
        **tables,
        "outcomes": sorted(outcomes, key=lambda row: [row[name] for name in OUTCOME[:6]]),
    }
    page = markdown(comparison, labels, panels, paired=paired, records=records)
    return write_results(folder, page, {"arms": flat, **tables}, results, records)


def arm_row(comparison: Comparison, metrics: ArmMetrics) -> Facts:
    """One arm's metrics as plain numbers, None if there is nothing to average over."""
    row = asdict(metrics.arm)
    row |= {f.name: getattr(metrics, f.name) for f in fields(metrics) if f.name != "arm"}
    baseline = comparison.baseline_of(metrics.arm)
    for name in CHANGES:
        base = getattr(baseline, name) if baseline else None
        row[f"{name}_change"] = change(getattr(metrics, name), base)
    return row


def all_notes(comparison: Comparison, labels: Labels, panels: Sequence[Panel] = ()) -> list[str]:
    """Notes for readers of the tables, one or two sentences per line."""
    repair = repair_foot(panels, labels) if panels else []
    return [*repair, *foot(comparison, labels)]


def summary(
    comparison: Comparison,
    labels: Labels,
    panels: Sequence[Panel] = (),
    paired: PairedReport | None = None,
) -> str:
    """The papers' tables for the present systems, their notes, and the paired comparisons, as
    Markdown that is aligned in a terminal.

    Debug2Fix's variants are in its table, the others in InspectCoder's.
    """
    sections = []
    arms = tuple(m for m in comparison.arms if m.arm.variant not in INSPECTCODERS)
    if arms or not panels:
        sections.append(table(paper_table(replace(comparison, arms=arms), labels)))
    for panel in panels:
        sections += [f"## Repair: {plain(panel.title(labels))}", table(repair_table(panel, labels))]
    if len(panels) > 1:
        sections.append(f"## By model: {plain(panels[0].benchmark_name)}")
        sections.append(table(models_table(panels, labels)))
    sections.append(notes(all_notes(comparison, labels, panels)))
    sections += paired_parts(paired, labels) if paired else []
    return "\n\n".join(sections) + "\n"


def markdown(
    comparison: Comparison,
    labels: Labels,
    panels: Sequence[Panel] = (),
    *,
    paired: PairedReport | None = None,
    records: Sequence[Record] = (),
) -> str:
    every_arm = ["## Every arm", FLAT_NOTE, table(flat_table(comparison, labels))]
    told = summary(comparison, labels, panels, paired).rstrip()
    return "\n\n".join(["# Evaluation", told, *parts(records), *every_arm]) + "\n"


# InspectCoder's tables: 1 and 2, per pair of models, and 3, over all pairs.


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
class SystemResults:
    """A system in a panel."""

    metrics: ArmMetrics
    rollouts: tuple[Rollout, ...]
    """The rollouts behind the rates: with a verdict, at attempts that all arms share."""

    @property
    def variant(self) -> str:
        return self.metrics.arm.variant

    def name(self, labels: Labels) -> str:
        return labels.name(self.metrics.arm, self.metrics.scripted)


@dataclass(frozen=True)
class Panel:
    """The systems of one table, in the paper's order: one pair of models."""

    benchmark: str
    pair: tuple[str, str]
    """Main and sub model; a system without a subagent only has the main model."""
    systems: tuple[SystemResults, ...]
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
    comparison: Comparison, rollouts: Sequence[Rollout], full_set: Card | None
) -> tuple[Panel, ...]:
    """All panels for the comparison's rollouts, which are of one benchmark."""
    by_arm: dict[Arm, list[Rollout]] = defaultdict(list)
    for row in judged(rollouts, comparison.attempts):
        by_arm[arm_of(row)].append(row)
    systems = [
        SystemResults(m, tuple(by_arm[m.arm]))
        for m in comparison.arms
        if m.arm.variant in INSPECTCODERS
    ]
    return tuple(
        Panel(
            rollouts[0].benchmark,
            (main, sub),
            tuple(
                system
                for system in systems
                if system.metrics.arm.main_model == main
                and system.metrics.arm.sub_model in (sub, "")
            ),
            frozenset(comparison.instances),
            full_set,
        )
        for main, sub in model_pairs(system.metrics.arm for system in systems)
    )


REPAIR_COLUMNS: dict[str, Callable[[ArmMetrics], str]] = {
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
"""These columns without any repair, which resolves nothing and spends nothing."""
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
    rows = [["Method", "Pass Rate", "ΔPass Rate", *REPAIR_COLUMNS], [name, *passed, *NOTHING]]
    mark = "~" if panel.is_estimate else ""
    for system in panel.systems:
        rate = system.metrics.pass_rate
        passed = [MISSING, MISSING]
        if full_set is not None and rate is not None:
            gain = decimal(full_set.gain(rate), "{:+.2f}%")
            passed = [mark + _percent(full_set.first_pass_rate + full_set.gain(rate)), mark + gain]
        texts = [text(system.metrics) for text in REPAIR_COLUMNS.values()]
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
                row.append(REPAIR_COLUMNS[column](found[variant]) if variant in found else MISSING)
        rows.append(row)
    return rows


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
        _full_set_note(panels[0]),
    ]
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
