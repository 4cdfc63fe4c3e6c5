"""How many patches are needed to resolve a bug (InspectCoder, figure 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from collect.store.records import Rollout
from eval.labels import ABLATIONS, Labels
from eval.metrics import MISSING, InstanceKey, instance_of, percent, percentage
from eval.panels import Facts, Panel


def most_attempts(panel: Panel) -> int:
    """The maximum number of patches that a system tried on a bug; 0 if none tries patches."""
    rows = (row for system in panel.systems for row in system.rollouts)
    return max((row.patch_attempts for row in rows), default=0)


def resolved_within(rollouts: Sequence[Rollout], attempts: int) -> int | None:
    """How many rollouts resolved their bug with at most `attempts` patches.

    None if no rollout counts its patches.
    """
    if not any(row.patch_attempts for row in rollouts):
        return None
    return sum(row.resolved and row.patch_attempts <= attempts for row in rollouts)


def attempts_table(panel: Panel, labels: Labels) -> list[list[str]]:
    """The cumulative resolve rate by number of patches, one row per system."""
    counted = range(1, most_attempts(panel) + 1)
    rows = [["Method", *(f"≤ {attempts}" for attempts in counted)]]
    for system in panel.systems:
        rates = [_rate(system.rollouts, attempts) for attempts in counted]
        rows.append([labels.variant(system.variant), *(percentage(rate) for rate in rates)])
    return rows


def attempts_facts(panel: Panel) -> list[Facts]:
    """The same numbers, one row per system and number of patches; without systems that count
    none."""
    return [
        panel.facts(system.variant)
        | {
            "patch_attempts": attempts,
            "resolved": resolved,
            "rollouts": len(system.rollouts),
            "resolve_rate": percent(resolved, len(system.rollouts)),
        }
        for system in panel.systems
        for attempts in range(1, most_attempts(panel) + 1)
        if (resolved := resolved_within(system.rollouts, attempts)) is not None
    ]


def _rate(rollouts: Sequence[Rollout], attempts: int) -> float | None:
    resolved = resolved_within(rollouts, attempts)
    return None if resolved is None else percent(resolved, len(rollouts))


# Bugs that systems share, and bugs that only one resolves (InspectCoder, figure 6).
#
# A system has solved a bug if any of its rollouts resolved it. InspectCoder's ablations are not
# separate systems: they are compared in pairs, but don't affect which bugs are unique to it.


Solved = Mapping[str, frozenset[InstanceKey]]
"""The bugs that each variant solved, in table order."""
SEPARATOR = " & "
SHOWN_SETS = 25


@dataclass(frozen=True)
class Standing:
    """One system compared with the others."""

    solved: int
    unique: int
    """Bugs that only this system solved."""
    of_others: float | None
    """Percent of the bugs solved by any other system that it also solved; None if there are
    none."""


def solved_bugs(panel: Panel) -> dict[str, frozenset[InstanceKey]]:
    """The bugs that each system of the panel solved."""
    return {
        system.variant: frozenset(instance_of(row) for row in system.rollouts if row.resolved)
        for system in panel.systems
    }


def compared(solved: Solved) -> dict[str, frozenset[InstanceKey]]:
    """The systems without the ablations, unless there is nothing else to compare."""
    chosen = {variant: bugs for variant, bugs in solved.items() if variant not in ABLATIONS}
    return chosen if len(chosen) > 1 else dict(solved)


def exact_sets(solved: Solved) -> list[tuple[tuple[str, ...], int]]:
    """For each set of systems, the number of bugs solved by exactly those, the largest first."""
    solvers = (
        tuple(variant for variant in solved if bug in solved[variant])
        for bug in frozenset().union(*solved.values())
    )
    order = list(solved)
    return sorted(
        Counter(solvers).items(),
        key=lambda item: (-item[1], [order.index(variant) for variant in item[0]]),
    )


def standing(variant: str, solved: Solved) -> Standing:
    """Compare one system with the others."""
    own = solved[variant]
    others = frozenset[InstanceKey]().union(*(solved[name] for name in solved if name != variant))
    return Standing(len(own), len(own - others), percent(len(own & others), len(others)))


def pairs_table(panel: Panel, labels: Labels) -> list[list[str]]:
    """One row per system: its bugs, its unique bugs, and the number shared with each other
    system."""
    solved = solved_bugs(panel)
    among = compared(solved)
    columns = ["Solved", "Only it", "Of the others'"]
    rows = [["Method", *columns, *(f"and {labels.variant(name)}" for name in solved)]]
    for variant, bugs in solved.items():
        alone = [MISSING, MISSING]
        if variant in among:
            place = standing(variant, among)
            alone = [str(place.unique), percentage(place.of_others)]
        shared = [str(len(bugs & solved[other])) if other != variant else "" for other in solved]
        rows.append([labels.variant(variant), str(len(bugs)), *alone, *shared])
    return rows


def sets_table(panel: Panel, labels: Labels) -> list[list[str]]:
    """The number of bugs solved by exactly each set of systems, the largest first."""
    found = exact_sets(compared(solved_bugs(panel)))
    names = [(", ".join(labels.variant(v) for v in variants), count) for variants, count in found]
    more = len(names) - SHOWN_SETS
    left_out = [[f"{more} more sets: overlap.csv has them", ""]] if more > 0 else []
    rows = [[name, str(count)] for name, count in names[:SHOWN_SETS]]
    return [["Solved by exactly", "Bugs"], *rows, *left_out, ["none", str(_unsolved(panel))]]


def sets_facts(panel: Panel) -> list[Facts]:
    """One row per set of systems; the empty set has the bugs that none solved."""
    among = compared(solved_bugs(panel))
    sets = [*exact_sets(among), ((), _unsolved(panel))]
    return [
        _facts(panel) | {"solved_by": SEPARATOR.join(variants), "systems": len(variants), "bugs": n}
        for variants, n in sets
    ]


def pairs_facts(panel: Panel) -> list[Facts]:
    """One row per pair of systems."""
    solved = solved_bugs(panel)
    return [
        _facts(panel)
        | {
            "first": first,
            "second": second,
            "both": len(solved[first] & solved[second]),
            "only_first": len(solved[first] - solved[second]),
            "only_second": len(solved[second] - solved[first]),
        }
        for first, second in combinations(solved, 2)
    ]


def _unsolved(panel: Panel) -> int:
    """Number of the panel's bugs that none of the compared systems solved."""
    return len(panel.instances) - len(frozenset().union(*compared(solved_bugs(panel)).values()))


def _facts(panel: Panel) -> Facts:
    main, sub = panel.pair
    return {"benchmark": panel.benchmark, "main_model": main, "sub_model": sub}
