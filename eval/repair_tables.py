"""InspectCoder's tables: 1 and 2, per benchmark and pair of models, and 3, over all pairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from eval.full_set import FullSet
from eval.labels import Labels, in_order
from eval.metrics import MISSING, ArmMetrics, cost, percentage, points, ratio, seconds, span
from eval.panels import Facts, Panel

ONE_PASS = "one_pass_generation"
COLUMNS: dict[str, Callable[[ArmMetrics], str]] = {
    "Resolve Rate": lambda m: percentage(m.pass_rate),
    "Debug Time": lambda m: seconds(m.debug_seconds),
    "#Fixes/Hour": lambda m: ratio(m.fixes_per_hour),
    "Debug Cost": lambda m: cost(m.dollars_per_rollout or None),
    "#Fixes/Dollar": lambda m: ratio(m.fixes_per_dollar),
    "Resolved": lambda m: f"{m.resolved}/{m.rollouts}",
    "95 %": lambda m: span(m.pass_low, m.pass_high),
}
"""The last two are not in the paper: the numbers behind the resolve rate, and its interval."""
NOTHING = [percentage(0.0), seconds(0.0), ratio(0.0), cost(0.0), ratio(0.0), "", ""]
"""The values of those columns without any repair: nothing is resolved and nothing is spent."""
MODEL_COLUMNS = ("Resolve Rate", "#Fixes/Hour")
"""The columns of table 3."""


def repair_table(panel: Panel, labels: Labels) -> list[list[str]]:
    """Table 1 or 2: the first solutions, then one row per system; the best resolve rate is bold."""
    best = _best(panel)
    rows = [["Method", "Pass Rate", "ΔPass Rate", *COLUMNS], _one_pass_row(panel.full_set)]
    for system in panel.systems:
        metrics = system.metrics
        texts = {name: text(metrics) for name, text in COLUMNS.items()}
        if metrics.pass_rate and metrics.pass_rate == best:
            texts["Resolve Rate"] = f"**{texts['Resolve Rate']}**"
        rows.append([labels.variant(system.variant), *_pass_cells(panel, metrics), *texts.values()])
    return rows


def models_table(panels: Sequence[Panel], labels: Labels) -> list[list[str]]:
    """Table 3 for one benchmark's panels: systems by models."""
    heads = [head for panel in panels for head in (panel.models(labels), "")]
    rows = [["Method", *heads], ["", *MODEL_COLUMNS * len(panels)]]
    for variant in in_order(system.variant for panel in panels for system in panel.systems):
        cells = [cell for panel in panels for cell in _model_cells(panel, variant)]
        rows.append([labels.variant(variant), *cells])
    return rows


def by_benchmark(panels: Iterable[Panel]) -> list[list[Panel]]:
    """The panels grouped by benchmark, for one table 3 each."""
    return [list(group) for _, group in groupby(panels, key=lambda panel: panel.benchmark)]


def repair_facts(panel: Panel) -> list[Facts]:
    """The table's numbers, one row per system, after one for the first solutions if known.

    Rates are in percent, times in seconds.
    """
    rows = [panel.facts(system.variant) | _facts(panel, system.metrics) for system in panel.systems]
    full_set = panel.full_set
    if full_set is None or not rows:
        return rows
    first: Facts = dict.fromkeys(rows[0])
    first |= {"benchmark": panel.benchmark, "variant": ONE_PASS, "main_model": full_set.writer}
    first["scripted"] = full_set.scripted
    return [first | {"pass_rate": full_set.first_pass_rate, "pass_gain": 0.0}, *rows]


def repair_foot(panels: Sequence[Panel], labels: Labels) -> list[str]:
    """Notes for readers of InspectCoder's tables, one or two sentences per line."""
    lines = [
        "Resolve Rate: rollouts whose last patch passes all tests, public and private; Pass % of "
        "the other tables.",
        "Debug Time: average wall time of a rollout, without scoring; what runs at once makes it "
        "longer. #Fixes/Hour: bugs resolved in an hour of it.",
    ]
    for group in by_benchmark(panels):
        lines.append(_full_set_note(group[0]))
    arms = [system.metrics for panel in panels for system in panel.systems]
    free = [m for m in arms if m.rollouts and not m.dollars_per_rollout]
    if free:
        lines.append(
            "Debug Cost and #Fixes/Dollar are - where no dollars were spent: the oracle is free, "
            "and a model without `prices` in the config costs nothing that is known "
            f"({', '.join(dict.fromkeys(labels.models(m.arm, m.scripted) for m in free))})."
        )
    return lines


def _full_set_note(panel: Panel) -> str:
    full_set = panel.full_set
    if full_set is None:
        return (
            f"Pass Rate and ΔPass Rate of {panel.benchmark} are -: the benchmark does not say how "
            "many problems its bugs are from, and how many of them the first solution passed."
        )
    text = (
        f"Pass Rate: over all {full_set.problems} problems of {panel.benchmark_name}, of which the "
        f"first solution{_author(full_set)} passed {full_set.passed}; {full_set.bugs} of the rest "
        "are bugs."
    )
    if _is_estimate(panel):
        text += (
            f" ~: an estimate, as if all of its bugs were resolved at the rate of the "
            f"{len(panel.instances)} that were measured."
        )
    return text


def _author(full_set: FullSet) -> str:
    if full_set.scripted:
        return " by the oracle (scripted), which breaks correct programs on purpose,"
    return f" by {full_set.writer}" if full_set.writer else ""


def _is_estimate(panel: Panel) -> bool:
    """Whether the full set has bugs that were not measured."""
    return panel.full_set is not None and len(panel.instances) < panel.full_set.bugs


def _one_pass_row(full_set: FullSet | None) -> list[str]:
    """The row of the first solutions, whose pass rate comes from the benchmark."""
    name = "One-pass generation"
    if full_set is None:
        return [name, MISSING, MISSING, *NOTHING]
    name += " (scripted)" if full_set.scripted else ""
    return [name, percentage(full_set.first_pass_rate), points(0.0), *NOTHING]


def _pass_cells(panel: Panel, metrics: ArmMetrics) -> tuple[str, str]:
    if panel.full_set is None or metrics.pass_rate is None:
        return MISSING, MISSING
    mark = "~" if _is_estimate(panel) else ""
    pass_rate = percentage(panel.full_set.pass_rate(metrics.pass_rate))
    return mark + pass_rate, mark + points(panel.full_set.gain(metrics.pass_rate))


def _best(panel: Panel) -> float | None:
    """The highest resolve rate, if there is more than one."""
    rates = [s.metrics.pass_rate for s in panel.systems if s.metrics.pass_rate is not None]
    return max(rates) if len(rates) > 1 else None


def _model_cells(panel: Panel, variant: str) -> list[str]:
    for system in panel.systems:
        if system.variant == variant:
            return [COLUMNS[column](system.metrics) for column in MODEL_COLUMNS]
    return [MISSING for _ in MODEL_COLUMNS]


def _facts(panel: Panel, metrics: ArmMetrics) -> Facts:
    known = panel.full_set if metrics.pass_rate is not None else None
    rate = metrics.pass_rate or 0.0
    return {
        "scripted": metrics.scripted,
        "bugs": metrics.instances,
        "rollouts": metrics.rollouts,
        "resolved": metrics.resolved,
        "pass_rate": known.pass_rate(rate) if known else None,
        "pass_gain": known.gain(rate) if known else None,
        "pass_rate_is_estimate": _is_estimate(panel) if known else None,
        "resolve_rate": metrics.pass_rate,
        "resolve_low": metrics.pass_low,
        "resolve_high": metrics.pass_high,
        "debug_seconds": metrics.debug_seconds,
        "fixes_per_hour": metrics.fixes_per_hour,
        "dollars_per_rollout": metrics.dollars_per_rollout,
        "fixes_per_dollar": metrics.fixes_per_dollar,
    }
