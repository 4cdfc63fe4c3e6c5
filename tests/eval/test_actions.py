"""Figure 8: how often each action is called, worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from collect.store.records import Rollout
from eval.figures import Cell
from eval.paper_figures import ALL, call_counts
from tests.eval.test_repair_tables import records_of, repair_rollout


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


def frequencies(rollouts: Sequence[Rollout]) -> dict[Cell, tuple[Cell, ...]]:
    """By action: calls a rollout and share of all calls, over all rollouts, over those that
    resolved their bug, and over those that did not."""
    return {row[1]: row[2:] for row in records_of(rollouts)[0]["fig8_frequencies_1"].rows}


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
    assert list(found) == [
        *(ALL, "set_breakpoint", "interact_code", "interact_code/inspection"),
        *("interact_code/modification", "propose_repair", "restart"),
    ]
    assert found[ALL] == (10, 100, 10, 100, 10, 100)
    assert found["interact_code"] == (8.5, 85, 8, 80, 9, 90)
    assert found["interact_code/modification"] == (1.5, 15, 3, 30, 0, 0)


def test_shares_of_the_kinds_make_up_all() -> None:
    # InspectCoder, section 4.4: of 32.76 actions a task on BigCodeBench-R, 15.42 are interact_code.
    rows = [
        acting(str(task), {"interact_code/inspection": 1542, "control_execution": 1734})
        for task in range(3)
    ]
    assert frequencies(rows)["interact_code"][1] == pytest.approx(47.07, abs=0.01)


def test_no_task_of_an_outcome() -> None:
    assert frequencies([SOLVED])[ALL][4:] == (None, None)


def test_systems_without_actions_are_left_out() -> None:
    rollouts = [SOLVED, UNSOLVED]
    rollouts += [repair_rollout(name, "simple_debugging") for name in "ab"]
    tables, figures = records_of(rollouts)
    assert tables["fig8_frequencies_1"].columns == (
        *("Method", "Action", "all: a rollout", "all: %", "solved: a rollout", "solved: %"),
        *("unsolved: a rollout", "unsolved: %"),
    )
    assert {row[0] for row in tables["fig8_frequencies_1"].rows} == {"InspectCoder"}
    assert [each.name for each in figures["fig8_actions_1"].series] == [
        *("InspectCoder: all", "InspectCoder: solved", "InspectCoder: unsolved"),
    ]
