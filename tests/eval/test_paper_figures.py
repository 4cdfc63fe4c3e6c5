"""Rates and InspectCoder's figures as labelled series."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collect.store.records import Rollout
from eval.figures import Figure, Record, Table
from eval.metrics import Labels, Seconds, compare
from eval.paper_figures import debugger_use, panel_records, pass_rates
from eval.tables import panels_of, write_tables
from tests.eval.test_metrics import NO_SUBAGENT, baseline_rollout
from tests.eval.test_repair_tables import only_panel, repair_rollout
from tests.records import make_rollout

LABELS = Labels()
COUNTS = Table("counts", "Counts", "Beside Debug2Fix, table 1", ("Variant",), (("Debug2Fix",),))
BUGS = ("a", "b", "c", "d")


def two_arms() -> list[Rollout]:
    """A baseline that resolves two bugs of four, and Debug2Fix that resolves three others."""
    return [
        *(baseline_rollout(bug, resolved=bug in "ab") for bug in BUGS),
        *(make_rollout(bug, resolved=bug in "bcd") for bug in BUGS),
    ]


def figure(records: dict[str, Record], name: str) -> Figure:
    found = records[name]
    assert isinstance(found, Figure)
    return found


def test_rates_have_a_point_for_each_arm() -> None:
    (rates,) = pass_rates(compare(two_arms()), LABELS).series
    assert [(point.arm, point.value) for point in rates.points] == [
        ("Baseline, large", 50.0),
        ("Debug2Fix, large → small", 75.0),
    ]
    point = rates.points[1]
    assert point.low is not None
    assert point.high is not None
    assert point.low < 75 < point.high


def test_the_use_of_the_debugger() -> None:
    """Claude Sonnet on GitBug-Java, Debug2Fix, section 6.2: 17 of 186 use the tools, 14 of these
    are resolved, and 11 by the baseline."""
    tools = NO_SUBAGENT | {"variant": "debug_tools_only", "seconds": 21.0, "scoring_seconds": 1.0}
    rollouts = [
        row
        for number in range(186)
        for row in (
            baseline_rollout(f"java-{number}", resolved=number < 11 or number >= 17, debug_calls=0),
            make_rollout(
                f"java-{number}",
                **tools,
                resolved=number < 14,
                debug_calls=4 if number < 16 else 2 if number == 16 else 0,
            ),
        )
    ]
    seconds = {row.rollout_id: Seconds(0.0, 5.0 if row.debug_calls else 0.0) for row in rollouts}
    found = debugger_use(compare(rollouts), rollouts, seconds, LABELS)
    ((*names, rollouts_, used, share, bugs, calls, passed, same, took, time),) = found.rows
    assert names == ["Debug Tools Only", "large"]
    assert (rollouts_, used, bugs, took, time) == (186, 17, 17, 5.0, 25.0)
    assert [share, calls, passed, same] == pytest.approx([9.14, 3.882, 82.35, 64.71], abs=0.005)
    assert found.columns[-3] == "Baseline pass %"


def test_a_debugger_that_no_one_used() -> None:
    never = make_rollout("a", **NO_SUBAGENT | {"variant": "debug_tools_only", "debug_calls": 0})
    (row,) = debugger_use(compare([never]), [never], {}, LABELS).rows
    assert row[2:] == (1, 0, 0.0, 0, None, None, None, None, None)
    baseline = baseline_rollout("a", debug_calls=0)
    assert debugger_use(compare([baseline]), [baseline], {}, LABELS).rows == ()


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
    records: list[Record] = [pass_rates(comparison, LABELS), COUNTS]
    panels = panels_of(comparison, rollouts, None)
    paths = write_tables(comparison, rollouts, tmp_path, panels=panels, records=records)
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        f"{record.name}.csv" for record in records
    }
    results = json.loads(paths.json.read_text(encoding="utf-8"))
    assert [each["name"] for each in results["figures"]] == [each.name for each in records]
    page = paths.markdown.read_text(encoding="utf-8")
    assert "## Counts\n\nBeside Debug2Fix, table 1" in page
