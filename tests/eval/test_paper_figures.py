"""Rates, costs and InspectCoder's figures as labelled series."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from collect.store.records import Rollout
from eval.figures import Figure, Record, Table
from eval.metrics import Labels, compare
from eval.paper_figures import arm_records, panel_records
from eval.tables import panels_of, write_tables
from tests.eval.test_metrics import baseline_rollout
from tests.eval.test_repair_tables import only_panel, repair_rollout
from tests.records import make_failed_rollout, make_rollout

LABELS = Labels()
BUGS = ("a", "b", "c", "d")


def two_arms() -> list[Rollout]:
    """A baseline that resolves two bugs of four, and Debug2Fix that resolves three others."""
    tokens = {"main_prompt_tokens": 900, "main_completion_tokens": 100}
    return [
        *(baseline_rollout(bug, resolved=bug in "ab", dollars=0.01, **tokens) for bug in BUGS),
        *(
            make_rollout(
                bug,
                resolved=bug in "bcd",
                dollars=0.03,
                sub_prompt_tokens=400,
                sub_completion_tokens=100,
                **tokens,
            )
            for bug in BUGS
        ),
    ]


def by_name(rollouts: Sequence[Rollout]) -> dict[str, Record]:
    return {each.name: each for each in arm_records(compare(rollouts), rollouts, LABELS)}


def figure(records: dict[str, Record], name: str) -> Figure:
    found = records[name]
    assert isinstance(found, Figure)
    return found


def table(records: dict[str, Record], name: str) -> Table:
    found = records[name]
    assert isinstance(found, Table)
    return found


def test_rates_have_a_series_for_each_pair_of_models() -> None:
    records = by_name(two_arms())
    rates = figure(records, "pass_rate")
    assert [(each.name, [(p.label, p.value) for p in each.points]) for each in rates.series] == [
        ("large", [("Baseline", 50.0)]),
        ("large → small", [("Debug2Fix", 75.0)]),
    ]
    point = rates.series[1].points[0]
    assert point.low is not None
    assert point.high is not None
    assert point.low < 75 < point.high


def test_costs_are_by_rollout_and_by_fix() -> None:
    records = by_name(two_arms())
    baseline, debug2fix = table(records, "costs").rows
    assert baseline[3:5] == (1000, 2000)
    assert debug2fix[3:5] == (1500, 2000)
    assert baseline[-2:] == pytest.approx((1.0, 2.0))
    assert debug2fix[-2:] == pytest.approx((3.0, 4.0))


def test_fixes_of_one_arm_alone_and_of_several() -> None:
    records = by_name(two_arms())
    assert table(records, "fixes_by_exactly").rows == (
        ("Debug2Fix, large → small", 1, 2),
        ("Baseline, large", 1, 1),
        ("Baseline, large + Debug2Fix, large → small", 2, 1),
        ("none", 0, 0),
    )
    alone, shared = figure(records, "unique_fixes").series
    assert [p.value for p in alone.points] == [1, 2]
    assert [p.value for p in shared.points] == [1, 1]


def test_a_fix_at_an_attempt_that_another_arm_lacks_is_no_arm_s_own() -> None:
    again = baseline_rollout("d", attempt=1)
    found = by_name([*two_arms(), again])
    assert found["fixes_by_exactly"] == by_name(two_arms())["fixes_by_exactly"]


def test_one_arm_shares_nothing() -> None:
    assert "unique_fixes" not in by_name([make_rollout("a")])
    assert by_name([make_failed_rollout()]) == {}


def test_inspectcoder_s_figures() -> None:
    actions = json.dumps({"set_breakpoint": 1, "interact_code/inspection": 3})
    rollouts = [
        repair_rollout("a", actions=actions, patch_attempts=2),
        repair_rollout("b", actions=actions, resolved=False, patch_attempts=5),
        repair_rollout("a", "ldb_block", resolved=False),
        repair_rollout("b", "ldb_block"),
    ]
    records = {each.name: each for each in panel_records([only_panel(rollouts)], LABELS)}
    alone, shared = figure(records, "fig6_overlap_1").series
    assert [(p.label, p.value) for p in alone.points] == [
        ("LDB (Block-Level)", 1),
        ("InspectCoder", 1),
    ]
    assert [p.value for p in shared.points] == [0, 0]
    ldb, inspectcoder = figure(records, "fig7_patch_attempts_1").series
    assert [p.value for p in ldb.points] == [50.0] * 5
    assert [p.value for p in inspectcoder.points] == [0.0, 50.0, 50.0, 50.0, 50.0]
    everything, *_ = figure(records, "fig8_actions_1").series
    assert everything.name == "InspectCoder: all"
    assert [(p.label, p.value) for p in everything.points] == [
        ("set_breakpoint", 1.0),
        ("interact_code", 3.0),
        ("interact_code/inspection", 3.0),
    ]


def test_they_are_written_beside_the_tables(tmp_path: Path) -> None:
    rollouts = two_arms()
    comparison = compare(rollouts)
    records = arm_records(comparison, rollouts, LABELS)
    panels = panels_of(comparison, rollouts, None)
    paths = write_tables(comparison, rollouts, tmp_path, panels=panels, records=records)
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        f"{record.name}.csv" for record in records
    }
    results = json.loads(paths.json.read_text(encoding="utf-8"))
    assert [each["name"] for each in results["figures"]] == [each.name for each in records]
    page = paths.markdown.read_text(encoding="utf-8")
    assert "## What it costs\n\nBeside Debug2Fix, table 1" in page
