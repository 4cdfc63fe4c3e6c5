"""The papers' figures: pass rates of all arms, Debug2Fix's use of the debugger, and InspectCoder's
figures 6 to 8."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from collect.agents.systems import names_of
from collect.store.records import Role, Rollout
from eval.figures import Cell, Figure, Point, Record, Series, Table
from eval.metrics import (
    ABLATIONS,
    Arm,
    AttemptKey,
    Comparison,
    InstanceKey,
    Labels,
    Seconds,
    arm_of,
    attempt_of,
    instance_of,
    judged,
    mean,
    percent,
    ratio,
)
from eval.tables import Panel

OFFERED = names_of(lambda system: system.main_debugs or system.subagent is Role.DEBUG_SUBAGENT)
"""Variants whose main agent chooses whether to debug, or to ask who debugs."""
SHOWN_SETS = 25
Solved = Mapping[str, frozenset[InstanceKey]]
"""The bugs that each system resolved with any rollout, in table order."""


def pass_rates(comparison: Comparison, labels: Labels) -> Figure:
    points = tuple(
        Point((name := labels.name(m.arm, m.scripted)), m.pass_rate, m.pass_low, m.pass_high, name)
        for m in comparison.arms
        if m.rollouts
    )
    unit, source = "% of rollouts, with their 95 % interval", "Debug2Fix, tables 1 and 2"
    return Figure("pass_rate", "Pass rate", source, "Arm", unit, (Series("resolved", points),))


def debugger_use(
    comparison: Comparison,
    rollouts: Sequence[Rollout],
    seconds: Mapping[str, Seconds],
    labels: Labels,
) -> Table:
    """How often each arm with a debugger used it, what came of it, and how long the debugger took.

    `seconds` are by rollout id.
    """
    by_arm: dict[Arm, dict[AttemptKey, Rollout]] = {m.arm: {} for m in comparison.arms}
    for row in judged(rollouts, comparison.attempts):
        by_arm[arm_of(row)][attempt_of(row)] = row
    rows: list[tuple[Cell, ...]] = []
    for m in comparison.arms:
        used = {key: row for key, row in by_arm[m.arm].items() if row.debug_calls}
        offered = m.arm.variant in OFFERED
        if not used and not (offered and m.rollouts):
            continue
        baseline = comparison.baseline_of(m.arm)
        same = [by_arm[baseline.arm][key] for key in used] if baseline else []
        timed = [row for row in used.values() if row.rollout_id in seconds]
        debugging = sum(seconds[row.rollout_id].debugger for row in timed)
        rows.append(
            (
                *labels.arm(m),
                m.rollouts,
                len(used),
                percent(len(used), m.rollouts),
                len({instance for instance, _ in used}),
                mean([row.debug_calls for row in used.values()]),
                percent(sum(row.resolved for row in used.values()), len(used)),
                percent(sum(row.resolved for row in same), len(same)),
                ratio(debugging, len(timed)),
                percent(debugging, sum(row.seconds - row.scoring_seconds for row in timed)),
            )
        )
    name = labels.variant(comparison.baseline)
    return Table(
        "debugger_use",
        "Use of the debugger",
        "Debug2Fix, sections 6.2 and 7",
        (
            *("Variant", "Models", "Rollouts", "Debugged", "% debugged", "Bugs", "Calls"),
            *("Pass %", f"{name} pass %", "Debugger seconds", "% of time"),
        ),
        tuple(rows),
        "Debugged: rollouts with a call of the debugger, the base of all that follows. "
        f"{name} pass %: at the same attempts at the same bugs. Debugger seconds: the debugger's "
        "own wall time a rollout, and its share of the rollout's time without scoring.",
    )


def panel_records(panels: Sequence[Panel], labels: Labels) -> list[Record]:
    """InspectCoder's figures 6, 7 and 8, for each pair of models."""
    records: list[Record] = []
    for number, panel in enumerate(panels, 1):
        records += _overlap_records(panel, number, labels)
        records += _attempts_records(panel, number, labels)
        records += _actions_records(panel, number, labels)
    return records


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


def _overlap_records(panel: Panel, number: int, labels: Labels) -> list[Record]:
    """How many bugs each system solved: alone, with each other, and by exactly which set."""
    title, solved = panel.title(labels), solved_bugs(panel)
    if len(solved) < 2:
        return []
    # Ablations are no systems of their own: they take no unique bug away from InspectCoder.
    among = {variant: bugs for variant, bugs in solved.items() if variant not in ABLATIONS}
    among = among if len(among) > 1 else solved
    rows: list[tuple[Cell, ...]] = []
    unique: dict[str, int] = {}
    for variant, bugs in solved.items():
        only_it = of_others = None
        if variant in among:
            others = others_of(variant, among)
            only_it = unique[variant] = len(bugs - others)
            of_others = percent(len(bugs & others), len(others))
        shared = [len(bugs & solved[other]) if other != variant else "" for other in solved]
        rows.append((labels.variant(variant), len(bugs), only_it, of_others, *shared))
    pairs = Table(
        f"fig6_pairs_{number}",
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
    names = {each.variant: each.name(labels) for each in panel.systems}
    alone = tuple(Point(labels.variant(w), n, arm=names[w]) for w, n in unique.items())
    shared_too = tuple(
        Point(labels.variant(w), len(among[w]) - n, arm=names[w]) for w, n in unique.items()
    )
    overlap = Figure(
        f"fig6_overlap_{number}",
        f"Unique and shared fixes: {title}",
        "InspectCoder, figure 6",
        "System",
        "Bugs resolved",
        (Series("only it", alone), Series("others too", shared_too)),
        stacked=True,
    )
    return [pairs, _sets_table(panel, number, among, labels), overlap]


def _sets_table(panel: Panel, number: int, among: Solved, labels: Labels) -> Table:
    sets: list[tuple[Cell, ...]] = [
        (" + ".join(map(labels.variant, who)), len(who), n) for who, n in exact_sets(among)
    ]
    sets.append(("none", 0, len(panel.instances.difference(*among.values()))))
    return Table(
        f"fig6_sets_{number}",
        f"Bugs by exactly who resolved them: {panel.title(labels)}",
        "As InspectCoder, figure 6",
        ("Resolved by exactly", "Arms", "Bugs"),
        tuple(sets),
        "By any rollout of an arm.",
        in_text=len(sets) <= SHOWN_SETS,
    )


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
            arm = system.name(labels)
            points = tuple(Point(str(n), rate, arm=arm) for n, rate in enumerate(rates, 1))
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
                    points.append(Point(action, per_rollout, arm=system.name(labels)))
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
