"""Figure 8: how often each action is called, worked out by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from collect.store.records import Rollout
from eval.actions import ALL, Frequency, actions_facts, actions_table, call_counts, frequencies
from eval.labels import Labels
from tests.eval.test_repair_tables import only_panel, repair_rollout


def acting(instance_id: str, actions: dict[str, int], **changes: Any) -> Rollout:
    return repair_rollout(instance_id, actions=json.dumps(actions), **changes)


SOLVED = acting(
    "a",
    {
        "propose_repair": 1,
        "interact_code/modification": 3,
        "interact_code/inspection": 5,
        "set_breakpoint": 1,
    },
)
UNSOLVED = acting("b", {"interact_code/inspection": 9, "restart": 1}, resolved=False)


def test_kinds_of_one_action_are_summed() -> None:
    assert call_counts([SOLVED, UNSOLVED]) == {
        ALL: 20,
        "set_breakpoint": 1,
        "interact_code": 17,
        "interact_code/inspection": 14,
        "interact_code/modification": 3,
        "propose_repair": 1,
        "restart": 1,
    }


def test_frequency_by_outcome() -> None:
    found = frequencies([SOLVED, UNSOLVED])
    assert list(found) == ["all", "solved", "unsolved"]
    assert list(found["all"]) == [
        *(ALL, "set_breakpoint", "interact_code", "interact_code/inspection"),
        *("interact_code/modification", "propose_repair", "restart"),
    ]
    assert found["all"][ALL] == Frequency(20, 10, 100)
    assert found["all"]["interact_code"] == Frequency(17, 8.5, 85)
    assert found["solved"]["interact_code/modification"] == Frequency(3, 3, 30)
    assert found["unsolved"]["interact_code/modification"] == Frequency(0, 0, 0)


def test_shares_of_the_kinds_make_up_all() -> None:
    # InspectCoder, section 4.4: of 32.76 actions a task on BigCodeBench-R, 15.42 are interact_code.
    rows = [
        acting(str(task), {"interact_code/inspection": 1542, "control_execution": 1734})
        for task in range(3)
    ]
    assert frequencies(rows)["all"]["interact_code"].share == pytest.approx(47.07, abs=0.01)


def test_no_task_of_an_outcome() -> None:
    found = frequencies([SOLVED])
    assert found["unsolved"][ALL] == Frequency(0, None, None)


def test_systems_without_actions_are_left_out() -> None:
    rollouts = [SOLVED, UNSOLVED]
    rollouts += [repair_rollout(name, "simple_debugging") for name in "ab"]
    panel = only_panel(rollouts)
    table = actions_table(panel, Labels())
    assert table[0] == [
        *("Method", "Action", "all: a task", "share", "solved: a task", "share"),
        *("unsolved: a task", "share"),
    ]
    assert [row[:4] for row in table[1:]] == [
        ["InspectCoder", "all actions", "10.00", "100.00%"],
        ["", "set_breakpoint", "0.50", "5.00%"],
        ["", "interact_code", "8.50", "85.00%"],
        ["", "- inspection", "7.00", "70.00%"],
        ["", "- modification", "1.50", "15.00%"],
        ["", "propose_repair", "0.50", "5.00%"],
        ["", "restart", "0.50", "5.00%"],
    ]
    facts = actions_facts(panel)
    assert len(facts) == 3 * 7
    assert {row["variant"] for row in facts} == {"inspectcoder"}
    assert sum(row["outcome"] == "solved" for row in facts) == 7
