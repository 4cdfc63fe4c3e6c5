"""Figure 7: the resolve rate by the number of patches, worked out by hand."""

from __future__ import annotations

from tests.eval.test_repair_tables import records_of, repair_rollout


def test_bugs_resolved_within_so_many_patches() -> None:
    taken = {"a": 1, "b": 1, "c": 3, "d": 5}
    rollouts = [repair_rollout(name, patch_attempts=count) for name, count in taken.items()]
    rollouts += [repair_rollout("e", patch_attempts=5, resolved=False)]
    tables, _ = records_of(rollouts)
    assert tables["fig7_patches_1"].rows == (("InspectCoder", 40, 40, 60, 60, 80),)


def test_one_column_a_patch_and_one_row_a_system_that_counts_them() -> None:
    rollouts = [
        repair_rollout("a", patch_attempts=1),
        repair_rollout("b", patch_attempts=2),
        repair_rollout("a", "simple_debugging", patch_attempts=3),
        repair_rollout("b", "simple_debugging", patch_attempts=3, resolved=False),
        repair_rollout("a", "swe_agent", patch_attempts=0),
        repair_rollout("b", "swe_agent", patch_attempts=0),
        repair_rollout("a", "inspectcoder_no_debugger", patch_attempts=1),
        repair_rollout("b", "inspectcoder_no_debugger", patch_attempts=3),
    ]
    tables, figures = records_of(rollouts)
    table = tables["fig7_patches_1"]
    assert table.columns == ("Method", "% ≤ 1", "% ≤ 2", "% ≤ 3")
    assert table.rows == (
        ("Simple-Debugging", 0, 0, 50),
        ("InspectCoder", 50, 100, 100),
        ("w/o debugger tool", 50, 50, 100),
    )
    drawn = [series.name for series in figures["fig7_patch_attempts_1"].series]
    assert drawn == ["Simple-Debugging", "InspectCoder"]


def test_nobody_counts_patches() -> None:
    tables, figures = records_of([repair_rollout("a", patch_attempts=0)])
    assert not {*tables, *figures} & {"fig7_patches_1", "fig7_patch_attempts_1"}
