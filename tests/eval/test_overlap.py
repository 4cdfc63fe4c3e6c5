"""Figure 6: which systems solve the same bugs, worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from collect.store.records import Rollout
from eval.attempts import (
    Standing,
    exact_sets,
    pairs_facts,
    pairs_table,
    sets_facts,
    sets_table,
    solved_bugs,
    standing,
)
from eval.labels import Labels
from tests.eval.test_repair_tables import only_panel, repair_rollout

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


def test_a_system_beside_the_others() -> None:
    # The others of AutoSD solve b, c, d, e and f; AutoSD one of them.
    assert standing("autosd", bug_sets(SOLVED)) == Standing(2, 1, 20)
    assert standing("inspectcoder", bug_sets(SOLVED)) == Standing(4, 2, 50)
    assert standing("autosd", bug_sets({"autosd": "ab"})) == Standing(2, 2, None)


def test_tables() -> None:
    panel = only_panel(solving(SOLVED))
    assert pairs_table(panel, Labels()) == [
        [
            *("Method", "Solved", "Only it", "Of the others'"),
            *("and AutoSD", "and LDB (Line-Level)", "and InspectCoder"),
        ],
        ["AutoSD", "2", "1", "20.00%", "", "1", "1"],
        ["LDB (Line-Level)", "3", "1", "40.00%", "1", "", "2"],
        ["InspectCoder", "4", "2", "50.00%", "1", "2", ""],
    ]
    table = sets_table(panel, Labels())
    assert table[1] == ["InspectCoder", "2"]
    assert table[-1] == ["none", "1"]
    facts = sets_facts(panel)
    assert sum(int(row["bugs"] or 0) for row in facts) == len(BUGS)
    assert facts[-1] == {
        **{"benchmark": "bigcodebench-r", "main_model": "Qwen2.5-Max"},
        **{"sub_model": "Qwen2.5-Max", "solved_by": "", "systems": 0, "bugs": 1},
    }
    pair = next(row for row in pairs_facts(panel) if row["first"] == "ldb_line")
    assert (pair["both"], pair["only_first"], pair["only_second"]) == (2, 1, 2)


def test_ablations_take_no_unique_bug_away() -> None:
    panel = only_panel(solving(SOLVED | {"inspectcoder_no_debugger": "bcefg"}))
    rows = pairs_table(panel, Labels())
    assert rows[3][:4] == ["InspectCoder", "4", "2", "50.00%"]
    assert rows[4][:4] == ["w/o debugger tool", "5", "-", "-"]
    assert rows[4][-2:] == ["4", ""]
    assert sets_table(panel, Labels())[-1] == ["none", "1"]


def test_ablations_alone_are_compared() -> None:
    panel = only_panel(solving({"inspectcoder": "a", "inspectcoder_no_debugger": "ab"}))
    assert [row[2] for row in pairs_table(panel, Labels())[1:]] == ["0", "1"]


def test_a_bug_is_solved_by_any_attempt() -> None:
    rollouts = [repair_rollout("a", attempt=number, resolved=number == 1) for number in range(3)]
    assert solved_bugs(only_panel(rollouts)) == {
        "inspectcoder": frozenset({("bigcodebench-r", "a")})
    }


def test_nobody_solves_anything() -> None:
    panel = only_panel(solving({"autosd": "", "inspectcoder": ""}))
    assert sets_table(panel, Labels())[1:] == [["none", "7"]]
    assert pairs_table(panel, Labels())[1][1:4] == ["0", "0", "-"]


@given(st.dictionaries(st.sampled_from(sorted(SOLVED)), st.text("abcdef"), min_size=1))
def test_exact_sets_divide_the_solved_bugs(solved: Mapping[str, str]) -> None:
    sets = bug_sets(solved)
    found = exact_sets(sets)
    assert sum(count for _, count in found) == len(frozenset().union(*sets.values()))
    for variant in sets:
        assert standing(variant, sets).unique == dict(found).get((variant,), 0)
        assert sum(n for names, n in found if variant in names) == len(sets[variant])
