"""The tables of a comparison: Debug2Fix's tables 1 and 2, and one row per arm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from collect.quantities import counted
from eval.labels import Labels, in_order
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


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table with aligned columns; the first row is the header."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(3, *(len(cell) for cell in column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def notes(lines: Iterable[str]) -> str:
    """One bullet per line."""
    return "\n".join(f"- {line}" for line in lines)


SHOWN_INSTANCES = 8


@dataclass(frozen=True)
class Section:
    """A block of the paper's table: two columns per pair of models."""

    title: str
    columns: tuple[str, str]
    main: Callable[[ArmMetrics], float | None]
    sub: Callable[[ArmMetrics], float | None]
    text: Callable[[float | None], str]


SECTIONS = (
    Section(
        "Pass & Call Rate (%)",
        ("Pass %", "Call %"),
        lambda m: m.pass_rate,
        lambda m: m.call_rate,
        decimal,
    ),
    Section("Avg. Steps", ("Main", "Sub"), lambda m: m.main_steps, lambda m: m.sub_steps, decimal),
    Section(
        "Avg. Tokens (Input + Output)",
        ("Main", "Sub"),
        lambda m: m.main_tokens,
        lambda m: m.sub_tokens,
        tokens,
    ),
)

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
    """The rows of the paper's table, header first; cells are Markdown."""
    pairs = model_pairs(m.arm for m in comparison.arms)
    heads = [head for pair in pairs for head in (labels.pair(pair, comparison.arms), "")]
    rows = [["Metric", *heads]]
    for section in SECTIONS:
        rows.append([f"**{section.title}**", *[""] * len(heads)])
        rows.append(["", *section.columns * len(pairs)])
        for variant in in_order(m.arm.variant for m in comparison.arms):
            cells = [c for pair in pairs for c in _cells(section, comparison, variant, pair)]
            rows.append([labels.variant(variant), *cells])
    return rows


def flat_table(comparison: Comparison, labels: Labels) -> list[list[str]]:
    """One row per arm with all metrics, header first."""
    rows = [["Variant", "Models", *FLAT_COLUMNS]]
    for metrics in ordered(comparison):
        names = [labels.variant(metrics.arm.variant), labels.models(metrics.arm, metrics.scripted)]
        rows.append([*names, *(text(metrics) for text in FLAT_COLUMNS.values())])
    return rows


def foot(comparison: Comparison, labels: Labels) -> list[str]:
    """Notes for readers of the tables, one or two sentences per line."""
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
        lines.append(_excluded(comparison, labels))
    if comparison.left_out:
        lines.append(_left_out(comparison))
    if comparison.attempts_left_out:
        lines.append(_attempts_left_out(comparison))
    if comparison.skipped:
        lines.append(f"Of the benchmark, {comparison.skipped}, as `stepinto bench verify` marked.")
    if comparison.trained_on:
        lines.append(_trained_on(comparison))
    if any(m.scripted for m in arms):
        lines.append(
            "(scripted): the oracle is a scripted teacher that knows the gold patch; its numbers "
            "are not a model's result."
        )
    return lines


def ordered(comparison: Comparison) -> list[ArmMetrics]:
    """The arms in the order of the papers' tables."""
    order = in_order(m.arm.variant for m in comparison.arms)
    return sorted(comparison.arms, key=lambda m: (order.index(m.arm.variant), m.arm))


def _find(comparison: Comparison, variant: str, pair: tuple[str, str]) -> ArmMetrics | None:
    by_arm = {m.arm: m for m in comparison.arms}
    return by_arm.get(Arm(variant, *pair)) or by_arm.get(Arm(variant, pair[0], ""))


def _cells(
    section: Section, comparison: Comparison, variant: str, pair: tuple[str, str]
) -> tuple[str, str]:
    metrics = _find(comparison, variant, pair)
    if metrics is None:
        return MISSING, MISSING
    value = section.main(metrics)
    baseline = comparison.baseline_of(metrics.arm)
    text = section.text(value)
    if baseline is not None:
        text += bracket(change(value, section.main(baseline)))
    if section is SECTIONS[0] and value and value == _best_pass_rate(comparison, pair):
        text = f"**{text}**"
    return text, section.text(section.sub(metrics))


def _best_pass_rate(comparison: Comparison, pair: tuple[str, str]) -> float | None:
    """The highest pass rate of a column, if it has more than one."""
    variants = {m.arm.variant for m in comparison.arms}
    column = [_find(comparison, variant, pair) for variant in variants]
    rates = [m.pass_rate for m in column if m is not None and m.pass_rate is not None]
    return max(rates) if len(rates) > 1 else None


def _excluded(comparison: Comparison, labels: Labels) -> str:
    counts = ", ".join(
        f"{m.excluded} of {labels.variant(m.arm.variant)} with {labels.models(m.arm, m.scripted)}"
        for m in ordered(comparison)
        if m.excluded
    )
    return (
        "Rollouts that failed because of the infrastructure or the budget have no verdict and are "
        f"in no rate and no average: {counts}. A model failure is judged by its patch."
    )


def _left_out(comparison: Comparison) -> str:
    names = [instance for _, instance in comparison.left_out]
    more = ", ..." if len(names) > SHOWN_INSTANCES else ""
    return (
        "Warning: not every bug has an attempt for which all arms have a verdict. Rates and "
        f"averages are of the {len(comparison.instances)} bugs that all share; left out are "
        f"{len(names)}: "
        f"{', '.join(names[:SHOWN_INSTANCES])}{more}."
    )


def _attempts_left_out(comparison: Comparison) -> str:
    return (
        "Warning: not every arm has a verdict for every attempt at these bugs. Rates and averages "
        f"are of the {len(comparison.attempts)} attempts that all arms share; left out are "
        f"{comparison.attempts_left_out}."
    )


def _trained_on(comparison: Comparison) -> str:
    names = [instance for _, instance in comparison.trained_on]
    more = ", ..." if len(names) > SHOWN_INSTANCES else ""
    return (
        f"Warning: {len(names)} of the bugs are of repositories in this run's training data, so "
        "that a model trained on it is not measured on unseen code: "
        f"{', '.join(names[:SHOWN_INSTANCES])}{more}. Collect with collect.benchmark.split: train."
    )
