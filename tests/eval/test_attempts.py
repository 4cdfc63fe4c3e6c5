"""Figure 7: the resolve rate by the number of patches, worked out by hand."""

from __future__ import annotations

from eval.attempts import attempts_facts, attempts_table, most_attempts, resolved_within
from eval.labels import Labels
from tests.eval.test_repair_tables import only_panel, repair_rollout


def test_bugs_resolved_within_so_many_patches() -> None:
    taken = {"a": 1, "b": 1, "c": 3, "d": 5}
    rollouts = [repair_rollout(name, patch_attempts=count) for name, count in taken.items()]
    rollouts += [repair_rollout("e", patch_attempts=5, resolved=False)]
    assert [resolved_within(rollouts, attempts) for attempts in range(6)] == [0, 2, 2, 3, 3, 4]


def test_one_column_a_patch_and_one_row_a_system() -> None:
    rollouts = [
        repair_rollout("a", patch_attempts=1),
        repair_rollout("b", patch_attempts=2),
        repair_rollout("a", "simple_debugging", patch_attempts=3),
        repair_rollout("b", "simple_debugging", patch_attempts=3, resolved=False),
        repair_rollout("a", "swe_agent", patch_attempts=0),
        repair_rollout("b", "swe_agent", patch_attempts=0),
    ]
    panel = only_panel(rollouts)
    assert most_attempts(panel) == 3
    assert attempts_table(panel, Labels()) == [
        ["Method", "≤ 1", "≤ 2", "≤ 3"],
        ["Simple-Debugging", "0.00%", "0.00%", "50.00%"],
        ["SWE-Agent", "-", "-", "-"],
        ["InspectCoder", "50.00%", "100.00%", "100.00%"],
    ]
    facts = attempts_facts(panel)
    assert [(row["variant"], row["patch_attempts"], row["resolved"]) for row in facts] == [
        *(("simple_debugging", attempts, attempts // 3) for attempts in (1, 2, 3)),
        *(("inspectcoder", attempts, min(attempts, 2)) for attempts in (1, 2, 3)),
    ]
    assert {row["rollouts"] for row in facts} == {2}


def test_nobody_counts_patches() -> None:
    panel = only_panel([repair_rollout("a", patch_attempts=0)])
    assert attempts_table(panel, Labels()) == [["Method"], ["InspectCoder"]]
    assert attempts_facts(panel) == []
