"""The tables of a comparison: Debug2Fix's tables 1 and 2, and one row per arm."""

from __future__ import annotations

from collections.abc import Callable

from collect.quantities import counted, first_of
from eval.labels import Labels, in_order, ordered_metrics
from eval.metrics import (
    MISSING,
    Arm,
    ArmMetrics,
    Comparison,
    bracket,
    change,
    counts,
    decimal,
    dollars,
    model_pairs,
    span,
    tokens,
)

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
)
"""The blocks of the paper's table, with two columns per pair of models: title, columns, values of
both, and how they are written."""

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
    "Sub $/rollout": lambda m: dollars(m.sub_dollars_per_rollout),
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
    "the attempts that all arms share."
)


def paper_table(comparison: Comparison, labels: Labels) -> list[list[str]]:
    """The rows of the paper's table, header first; cells are Markdown. The best pass rate of a pair
    of models is bold."""
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
    for m in ordered_metrics(comparison.arms):
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
    lines.append("95 %: Wilson interval of the rate of resolved rollouts, clustered by bug.")
    if any(m.excluded for m in arms):
        counted_out = ", ".join(
            f"{m.excluded} of {' with '.join(labels.arm(m))}"
            for m in ordered_metrics(arms)
            if m.excluded
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
