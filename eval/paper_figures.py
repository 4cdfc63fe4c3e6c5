"""The papers' figures: pass rates and costs of all arms, and InspectCoder's figures 6 to 8."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence

from collect.store.records import Rollout
from eval.figures import Cell, Figure, Point, Record, Series, Table, without_empty
from eval.metrics import (
    ABLATIONS,
    REPAIR_NAMES,
    ArmMetrics,
    Comparison,
    InstanceKey,
    Labels,
    arm_of,
    instance_of,
    judged,
    ordered_metrics,
    percent,
    ratio,
)
from eval.tables import Panel

SHOWN_SETS = 25
Solved = Mapping[str, frozenset[InstanceKey]]
"""The bugs that each arm or system resolved with any rollout, in table order."""


def arm_records(
    comparison: Comparison, rollouts: Sequence[Rollout], labels: Labels
) -> list[Record]:
    arms = {labels.arm(m): m for m in ordered_metrics(comparison.arms) if m.rollouts}
    if not arms:
        return []
    records: list[Record] = [_pass_rates(arms), _costs_table(arms)]
    # InspectCoder's systems have their own figures per pair of models.
    if len(arms) > 1 and not all(m.arm.variant in REPAIR_NAMES for m in arms.values()):
        solved: dict[str, frozenset[InstanceKey]] = {", ".join(each): frozenset() for each in arms}
        names = {m.arm: ", ".join(each) for each, m in arms.items()}
        for row in judged(rollouts, comparison.attempts):
            if row.resolved:
                solved[names[arm_of(row)]] |= {instance_of(row)}
        records += _overlap_records(
            ("fixes_by_exactly", "unique_fixes"), "all arms", solved, comparison.instances
        )
    return without_empty(records)


def _costs_table(arms: Mapping[tuple[str, str], ArmMetrics]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for names, m in arms.items():
        tokens = _total(m.main_tokens, m.sub_tokens_all) or 0.0
        fixes = m.resolved / m.rollouts
        rows.append(
            (
                *names,
                _total(m.main_steps, m.sub_steps_all),
                round(tokens),
                round(tokens / fixes) if fixes else None,
                m.debug_seconds,
                ratio(m.debug_seconds or 0.0, fixes),
                100 * m.dollars_per_rollout if m.dollars_per_rollout else None,
                100 * m.dollars_per_fix if m.dollars_per_fix else None,
            )
        )
    columns = ("Variant", "Models", "Steps", "Tokens", "Tokens a fix", "Seconds", "Seconds a fix")
    return Table(
        "costs",
        "What it costs",
        "Beside Debug2Fix, table 1, and InspectCoder, table 1",
        (*columns, "Cents", "Cents a fix"),
        tuple(rows),
        "Averages a rollout, main agent and subagent together, without scoring; a fix: by the "
        "number of resolved rollouts.",
    )


def _pass_rates(arms: Mapping[tuple[str, str], ArmMetrics]) -> Figure:
    """One series per pair of models, one label per variant."""
    series: dict[str, list[Point]] = {}
    for (variant, models), m in arms.items():
        point = Point(variant, m.pass_rate, m.pass_low, m.pass_high)
        series.setdefault(models, []).append(point)
    listed = tuple(Series(models, tuple(points)) for models, points in series.items())
    source = "Debug2Fix, tables 1 and 2"
    return Figure("pass_rate", "Pass rate", source, "Variant", "% of rollouts", listed)


def _total(main: float | None, sub: float | None) -> float | None:
    return None if main is None else main + (sub or 0.0)


def panel_records(panels: Sequence[Panel], labels: Labels) -> list[Record]:
    """InspectCoder's figures 6, 7 and 8, for each pair of models."""
    records: list[Record] = []
    for number, panel in enumerate(panels, 1):
        title = panel.title(labels)
        solved = solved_bugs(panel)
        # Ablations are no systems of their own: they take no unique bug away from InspectCoder.
        among = {variant: bugs for variant, bugs in solved.items() if variant not in ABLATIONS}
        among = among if len(among) > 1 else solved
        if len(solved) > 1:
            named = {labels.variant(variant): bugs for variant, bugs in among.items()}
            names = (f"fig6_sets_{number}", f"fig6_overlap_{number}")
            records += [
                _pairs_table(f"fig6_pairs_{number}", title, solved, among, labels),
                *_overlap_records(names, title, named, panel.instances),
            ]
        records += _attempts_records(panel, number, labels)
        records += _actions_records(panel, number, labels)
    return without_empty(records)


def solved_bugs(panel: Panel) -> dict[str, frozenset[InstanceKey]]:
    """The bugs that each system of the panel solved, with any rollout."""
    return {
        system.variant: frozenset(instance_of(row) for row in system.rollouts if row.resolved)
        for system in panel.systems
    }


def others_of(name: str, solved: Solved) -> frozenset[InstanceKey]:
    return frozenset[InstanceKey]().union(*(solved[other] for other in solved if other != name))


def exact_sets(solved: Solved) -> list[tuple[tuple[str, ...], int]]:
    """For each set of arms, the number of bugs resolved by exactly those, the largest first."""
    sets = Counter(
        tuple(name for name in solved if bug in solved[name])
        for bug in frozenset().union(*solved.values())
    )
    order = list(solved)
    return sorted(sets.items(), key=lambda item: (-item[1], [order.index(n) for n in item[0]]))


def _pairs_table(name: str, title: str, solved: Solved, among: Solved, labels: Labels) -> Table:
    """One row per system: its bugs, those that are only its own, and those that it shares with each
    other. `among` are the systems whose bugs count as the others'."""
    rows: list[tuple[Cell, ...]] = []
    for variant, bugs in solved.items():
        alone: tuple[Cell, Cell] = (None, None)
        if variant in among:
            others = others_of(variant, among)
            alone = (len(bugs - others), percent(len(bugs & others), len(others)))
        shared = [len(bugs & solved[other]) if other != variant else "" for other in solved]
        rows.append((labels.variant(variant), len(bugs), *alone, *shared))
    return Table(
        name,
        f"Pairs of systems: {title}",
        "InspectCoder, figure 6",
        (
            *("Method", "Solved", "Only it", "% of the others'"),
            *(f"and {labels.variant(variant)}" for variant in solved),
        ),
        tuple(rows),
        "Solved: by any rollout. Only it: by none of the others. Of the others': its share of what "
        "they solved. The ablations of InspectCoder are among the others, and in the sets, only "
        "where there is nothing else to compare.",
    )


def _overlap_records(
    names: tuple[str, str], title: str, solved: Solved, bugs: Collection[InstanceKey]
) -> list[Record]:
    """How many bugs were resolved by exactly which arms; and of each arm's, how many by others."""
    sets: list[tuple[Cell, ...]] = [(" + ".join(who), len(who), n) for who, n in exact_sets(solved)]
    sets.append(("none", 0, len(set(bugs).difference(*solved.values()))))
    exactly = Table(
        names[0],
        f"Bugs by exactly who resolved them: {title}",
        "As InspectCoder, figure 6",
        ("Resolved by exactly", "Arms", "Bugs"),
        tuple(sets),
        "By any rollout of an arm.",
        in_text=len(sets) <= SHOWN_SETS,
    )
    unique = {who: len(found - others_of(who, solved)) for who, found in solved.items()}
    alone = tuple(Point(who, count) for who, count in unique.items())
    shared = tuple(Point(who, len(solved[who]) - count) for who, count in unique.items())
    overlap = Figure(
        names[1],
        f"Unique and shared fixes: {title}",
        "InspectCoder, figure 6",
        "System",
        "Bugs resolved",
        (Series("only it", alone), Series("others too", shared)),
        stacked=True,
    )
    return [exactly, overlap]


def _attempts_records(panel: Panel, number: int, labels: Labels) -> list[Record]:
    """The cumulative resolve rate by number of patches, of the systems that count them."""
    counted = [system for system in panel.systems if any(r.patch_attempts for r in system.rollouts)]
    most = max((row.patch_attempts for system in counted for row in system.rollouts), default=0)
    rows: list[tuple[Cell, ...]] = []
    series = []
    for system in counted:
        rates = [
            percent(
                sum(row.resolved and row.patch_attempts <= attempts for row in system.rollouts),
                len(system.rollouts),
            )
            for attempts in range(1, most + 1)
        ]
        name = labels.variant(system.variant)
        rows.append((name, *rates))
        if system.variant not in ABLATIONS:
            points = tuple(Point(str(n), rate) for n, rate in enumerate(rates, 1))
            series.append(Series(name, points))
    title = f"Resolve rate by number of patches: {panel.title(labels)}"
    source = "InspectCoder, figure 7"
    table = Table(
        f"fig7_patches_{number}",
        title,
        source,
        ("Method", *(f"% ≤ {attempts}" for attempts in range(1, most + 1))),
        tuple(rows),
        "Resolved with at most so many patches, for systems that count them.",
    )
    figure = Figure(
        f"fig7_patch_attempts_{number}",
        title,
        source,
        "Patches, at most",
        "% of rollouts",
        tuple(series),
    )
    return [table, figure]


ALL = "all actions"
PAPER_ORDER = ("set_breakpoint", "control_execution", "interact_code", "propose_repair")
OUTCOMES: Mapping[str, Callable[[Rollout], bool]] = {
    "all": lambda row: True,
    "solved": lambda row: row.resolved,
    "unsolved": lambda row: not row.resolved,
}


def call_counts(rollouts: Sequence[Rollout]) -> Counter[str]:
    """Number of calls by action, and of all actions under `ALL`.

    An action with several kinds, `interact_code/inspection` and `interact_code/modification`, also
    has its sum, `interact_code`.
    """
    counts: Counter[str] = Counter()
    for row in rollouts:
        for action, calls in json.loads(row.actions).items():
            names = {ALL, action, action.partition("/")[0]}
            counts.update(dict.fromkeys(names, calls))
    return counts


def _actions_records(panel: Panel, number: int, labels: Labels) -> list[Record]:
    """Calls of each action a rollout, and their share of all calls, by outcome."""

    def place(action: str) -> tuple[bool, int, str]:
        name = action.partition("/")[0]
        known = PAPER_ORDER.index(name) if name in PAPER_ORDER else len(PAPER_ORDER)
        return (action != ALL, known, action)

    rows: list[tuple[Cell, ...]] = []
    series = []
    for system in panel.systems:
        name = labels.variant(system.variant)
        actions = sorted(call_counts(system.rollouts), key=place)
        cells: dict[str, list[Cell]] = {action: [] for action in actions}
        for outcome, belongs in OUTCOMES.items():
            chosen = [row for row in system.rollouts if belongs(row)]
            counts = call_counts(chosen)
            points = []
            for action in actions:
                per_rollout = ratio(counts[action], len(chosen))
                cells[action] += [per_rollout, percent(counts[action], counts[ALL])]
                if action != ALL:
                    points.append(Point(action, per_rollout))
            if points:
                series.append(Series(f"{name}: {outcome}", tuple(points)))
        rows += [(name, action, *found) for action, found in cells.items()]
    title = f"Actions a rollout: {panel.title(labels)}"
    source = "InspectCoder, figure 8"
    table = Table(
        f"fig8_frequencies_{number}",
        title,
        source,
        ("Method", "Action", *(f"{o}: {what}" for o in OUTCOMES for what in ("a rollout", "%"))),
        tuple(rows),
        "Calls a rollout and their share of all calls: over all rollouts, and over those that did "
        "and did not resolve their bug. Systems without actions are left out.",
    )
    figure = Figure(
        f"fig8_actions_{number}", title, source, "Action", "Calls a rollout", tuple(series)
    )
    return [table, figure]
