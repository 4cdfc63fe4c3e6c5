"""Paired statistics as tables and as rows of plain numbers."""

from __future__ import annotations

from dataclasses import asdict

from eval.labels import VARIANT_NAMES, Labels
from eval.metrics import MISSING, Arm, decimal
from eval.paired.comparing import PairedComparison
from eval.paired.gain import RecoveredGain
from eval.paired.report import PairedReport
from eval.panels import Facts
from eval.tables import notes, table

COMPARISON_HEAD = (
    *("Left out", "First %", "Second %", "Difference", "Interval", "First better"),
    *("Second better", "p", "p (Holm)", "Non-inferior", "Bugs needed"),
)
GAIN_HEAD = ("Small", "Frontier", "Baseline", "Bugs", "Left out", "Frontier's gain", "Recovered %")


def paired_parts(report: PairedReport, labels: Labels, heading: str = "##") -> list[str]:
    """The section's Markdown parts; empty if nothing was compared."""
    parts = [f"{heading} Paired comparisons"] if report else []
    if report.comparisons:
        parts.append(table(comparisons_table(report, labels)))
    if report.gains:
        parts.append(table(gains_table(report, labels)))
    return [*parts, notes(paired_notes(report, labels))] if report else []


def comparisons_table(report: PairedReport, labels: Labels) -> list[list[str]]:
    """One row per comparison, header first."""
    trials = f"{report.trial.capitalize()}s"
    rows = [["First", "Second", "Bugs", trials, *COMPARISON_HEAD]]
    for each in report.comparisons:
        names = [_name(arm, report, labels) for arm in (each.first, each.second)]
        rows.append([*names, *_comparison_cells(each)])
    return rows


def gains_table(report: PairedReport, labels: Labels) -> list[list[str]]:
    """One row per small model, header first."""
    rows = [list(GAIN_HEAD)]
    for each in report.gains:
        arms = (each.arms.small, each.arms.frontier, each.arms.baseline)
        names = [_name(arm, report, labels) for arm in arms]
        gain = f"{_signed(each.gain)} ({_range(each.gain_low, each.gain_high)})"
        bugs = [str(each.instances), str(each.left_out)]
        rows.append([*names, *bugs, gain, _share_cell(each)])
    return rows


def paired_notes(report: PairedReport, labels: Labels) -> list[str]:
    """Notes for readers of the two tables."""
    return [*_comparison_notes(report), *_gain_notes(report, labels)]


def _comparison_notes(report: PairedReport) -> list[str]:
    if not report.comparisons:
        return []
    config, points = report.config, "percentage points"
    several = any(each.mcnemar_p is None and each.instances for each in report.comparisons)
    return [
        f"Difference: first minus second in {points}, over the {report.trial}s at which both have "
        f"a verdict; left out are bugs without such. Interval: {100 * config.confidence:g} %, a "
        f"bootstrap of bugs ({config.resamples} resamples, seed {config.seed}).",
        "First better, second better: bugs at which it got more right. p: "
        f"{_test_name(report.trial, several)}; (Holm): corrected for {len(report.comparisons)} "
        "comparisons.",
        f"Non-inferior: the interval's lower end is above -{config.margin:g} {points}. Bugs "
        f"needed: to see {config.difference:g} {points} with {100 * config.power:g} % power at the "
        f"{100 * config.level:g} % level, with the discordance found here.",
    ]


def _gain_notes(report: PairedReport, labels: Labels) -> list[str]:
    if not report.gains:
        return []
    undefined = [
        f"Undefined for {_name(each.arms.small, report, labels)}: {each.undefined}."
        for each in report.gains
        if each.undefined
    ]
    return [
        "Recovered: (small - baseline) / (frontier - baseline), with its bootstrap interval by "
        "bug, moved out where no bug went one way; undefined where the interval of the frontier's "
        "gain includes 0.",
        *undefined,
    ]


def comparison_facts(report: PairedReport) -> list[Facts]:
    """One row per comparison, with all fields."""
    return [
        _arm_facts("first", each.first)
        | _arm_facts("second", each.second)
        | {"scripted": bool({each.first, each.second} & report.scripted)}
        | {key: value for key, value in asdict(each).items() if key not in ("first", "second")}
        for each in report.comparisons
    ]


def gain_facts(report: PairedReport) -> list[Facts]:
    """One row per small model."""
    rows: list[Facts] = []
    for each in report.gains:
        arms = each.arms
        row = _arm_facts("small", arms.small) | _arm_facts("frontier", arms.frontier)
        row |= _arm_facts("baseline", arms.baseline)
        row["scripted"] = bool({arms.small, arms.frontier, arms.baseline} & report.scripted)
        rows.append(row | {key: value for key, value in asdict(each).items() if key != "arms"})
    return rows


def p_value(value: float | None) -> str:
    """Three decimals, or <0.001 below that."""
    if value is None:
        return MISSING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _comparison_cells(found: PairedComparison) -> list[str]:
    return [
        *(str(found.instances), str(found.attempts), str(found.left_out)),
        *(decimal(found.first_rate), decimal(found.second_rate), _signed(found.difference)),
        _range(found.low, found.high),
        *(str(found.first_better), str(found.second_better)),
        *(p_value(found.p), p_value(found.p_corrected)),
        _yes_or_no(found.non_inferior),
        MISSING if found.instances_for_planned is None else str(found.instances_for_planned),
    ]


def _share_cell(found: RecoveredGain) -> str:
    if found.share is None:
        return "undefined"
    low = "-inf" if found.low is None else f"{found.low:.1f}"
    high = "inf" if found.high is None else f"{found.high:.1f}"
    return f"{found.share:.1f} ({low} to {high})"


def _test_name(trial: str, several: bool) -> str:
    exact = "McNemar's exact test"
    if not several:
        return exact
    return f"sign-flip permutation test over bugs where one has several {trial}s, else {exact}"


def _name(arm: Arm, report: PairedReport, labels: Labels) -> str:
    models = labels.models(arm, arm in report.scripted)
    return f"{VARIANT_NAMES[arm.variant]}, {models}" if arm.variant in VARIANT_NAMES else models


def _arm_facts(which: str, arm: Arm) -> Facts:
    return {f"{which}_{key}": value for key, value in asdict(arm).items()}


def _signed(value: float | None) -> str:
    return MISSING if value is None else f"{value:+.1f}"


def _range(low: float | None, high: float | None) -> str:
    return MISSING if low is None or high is None else f"{low:+.1f} to {high:+.1f}"


def _yes_or_no(value: bool | None) -> str:
    return MISSING if value is None else ("yes" if value else "no")
