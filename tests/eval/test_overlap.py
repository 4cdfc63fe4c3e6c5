"""Figure 6: which systems solve the same bugs, worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from collect.store.records import Rollout
from eval.figures import Cell
from eval.paper_figures import exact_sets, others_of, solved_bugs
from tests.eval.test_repair_tables import only_panel, records_of, repair_rollout

BUGS = "abcdefg"
SOLVED = {"autosd": "ab", "ldb_line": "bcd", "inspectcoder": "bcef"}


def solving(solved: Mapping[str, str]) -> list[Rollout]:
    return [
        repair_rollout(bug, variant, resolved=bug in bugs)
        for variant, bugs in solved.items()
        for bug in BUGS
    ]


def bug_sets(solved: Mapping[str, str]) -> dict[str, frozenset[tuple[str, str]]]:
    return {variant: frozenset(("x", bug) for bug in bugs) for variant, bugs in solved.items()}


def test_bugs_solved_by_exactly_a_set() -> None:
    assert exact_sets(bug_sets(SOLVED)) == [
        (("inspectcoder",), 2),
        (("autosd",), 1),
        (("autosd", "ldb_line", "inspectcoder"), 1),
        (("ldb_line",), 1),
        (("ldb_line", "inspectcoder"), 1),
    ]


def rows_of(solved: Mapping[str, str], name: str) -> tuple[tuple[Cell, ...], ...]:
    return records_of(solving(solved))[0][name].rows


def test_tables() -> None:
    tables, figures = records_of(solving(SOLVED))
    pairs = tables["fig6_pairs_1"]
    assert pairs.columns == (
        *("Method", "Solved", "Only it", "% of the others'"),
        *("and AutoSD", "and LDB (Line-Level)", "and InspectCoder"),
    )
    # The others of AutoSD solve b, c, d, e and f; AutoSD one of them.
    assert pairs.rows == (
        ("AutoSD", 2, 1, 20, "", 1, 1),
        ("LDB (Line-Level)", 3, 1, 40, 1, "", 2),
        ("InspectCoder", 4, 2, 50, 1, 2, ""),
    )
    sets = tables["fig6_sets_1"].rows
    assert (sets[0], sets[-1]) == (("InspectCoder", 1, 2), ("none", 0, 1))
    assert sum(int(row[2] or 0) for row in sets) == len(BUGS)
    alone, shared = figures["fig6_overlap_1"].series
    assert [point.value for point in alone.points] == [1, 1, 2]
    assert [point.value for point in shared.points] == [1, 2, 2]


def test_ablations_take_no_unique_bug_away() -> None:
    solved = SOLVED | {"inspectcoder_no_debugger": "bcefg"}
    rows = rows_of(solved, "fig6_pairs_1")
    assert rows[2][:4] == ("InspectCoder", 4, 2, 50)
    assert rows[3][:4] == ("w/o debugger tool", 5, None, None)
    assert rows[3][-2:] == (4, "")
    assert rows_of(solved, "fig6_sets_1")[-1] == ("none", 0, 1)


def test_ablations_alone_are_compared() -> None:
    rows = rows_of({"inspectcoder": "a", "inspectcoder_no_debugger": "ab"}, "fig6_pairs_1")
    assert [row[2] for row in rows] == [0, 1]


def test_a_bug_is_solved_by_any_attempt() -> None:
    rollouts = [repair_rollout("a", attempt=number, resolved=number == 1) for number in range(3)]
    assert solved_bugs(only_panel(rollouts)) == {
        "inspectcoder": frozenset({("bigcodebench-r", "a")})
    }


def test_nobody_solves_anything() -> None:
    solved = {"autosd": "", "inspectcoder": ""}
    assert rows_of(solved, "fig6_sets_1") == (("none", 0, 7),)
    assert rows_of(solved, "fig6_pairs_1")[0][1:4] == (0, 0, None)


@given(st.dictionaries(st.sampled_from(sorted(SOLVED)), st.text("abcdef"), min_size=1))
def test_exact_sets_divide_the_solved_bugs(solved: Mapping[str, str]) -> None:
    sets = bug_sets(solved)
    found = exact_sets(sets)
    assert sum(count for _, count in found) == len(frozenset().union(*sets.values()))
    for variant in sets:
        unique = sets[variant] - others_of(variant, sets)
        assert len(unique) == dict(found).get((variant,), 0)
        assert sum(n for names, n in found if variant in names) == len(sets[variant])
