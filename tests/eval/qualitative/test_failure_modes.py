"""Failure modes: each by the facts that it is told by."""

from __future__ import annotations

from typing import Any

import pytest

from collect.code.patches import ChangedRange
from collect.errors import FailureKind
from collect.store.records import Rollout, StopReason, TestRow
from eval.qualitative.failure_modes import (
    ANSWER_MODES,
    MODES,
    OF_TABLE_4,
    Session,
    modes_of_answer,
    modes_of_rollout,
)
from tests.records import make_failed_rollout, make_rollout

FAILED = (TestRow("t", "fail_to_pass", "failed", "failed"),)
BROKEN = (
    TestRow("t", "fail_to_pass", "failed", "passed"),
    TestRow("u", "pass_to_pass", "passed", "failed"),
)
HERE = ChangedRange("ledger/cache.py", 13, 13)
NEAR = ChangedRange("ledger/cache.py", 10, 10)
FAR = ChangedRange("ledger/cache.py", 40, 41)


def session(**changes: Any) -> Session:
    """A sound session; `changes` replaces facts."""
    facts: dict[str, Any] = {
        "answers": True,
        "failed": False,
        "out_of_steps": False,
        "calls": 5,
        "not_done": 0,
        "launches": 1,
        "stops": 2,
        "inspections": 2,
        "late_inspections": 2,
        "breakpoints": True,
        "breakpoint_hits": 1,
        "well_formed": True,
        "ungrounded": 0,
        "misread": 0,
        "touched": True,
    }
    return Session(**facts | changes)


def unresolved(**changes: Any) -> Rollout:
    fields: dict[str, Any] = {"resolved": False, "tests": FAILED}
    return make_rollout(**fields | changes)


NOTHING_SEEN = {"stops": 0, "inspections": 0, "late_inspections": 0, "breakpoint_hits": 0}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"failed": True, "well_formed": False}, ["subagent_error"]),
        ({**NOTHING_SEEN, "launches": 0, "not_done": 5}, ["unusable_calls", "static_analysis"]),
        ({**NOTHING_SEEN, "breakpoints": False}, ["session_failed"]),
        ({**NOTHING_SEEN, "launches": 0, "calls": 2}, ["static_analysis"]),
        ({"breakpoint_hits": 0, "late_inspections": 0}, ["breakpoint_never_hit"]),
        ({"breakpoint_hits": 0}, []),
        ({"breakpoint_hits": 0, "late_inspections": 0, "breakpoints": False}, []),
        ({"well_formed": False, "out_of_steps": True}, ["out_of_steps", "no_answer"]),
        ({"out_of_steps": True}, []),
        ({"well_formed": False}, ["no_answer"]),
        ({"misread": 1, "ungrounded": 2}, ["misread_value", "ungrounded"]),
        ({"ungrounded": 1}, ["ungrounded"]),
        ({**NOTHING_SEEN, "launches": 0, "answers": False, "calls": 3, "not_done": 3}, []),
    ],
)
def test_answers(changes: dict[str, Any], expected: list[str]) -> None:
    assert modes_of_answer(session(**changes)) == expected


def test_without_a_debugger_to_see_only_the_answer_tells() -> None:
    unseen = session(**NOTHING_SEEN, ungrounded=1, sees_debugger=False)
    assert modes_of_answer(unseen) == ["ungrounded"]


@pytest.mark.parametrize("kind", [FailureKind.INFRASTRUCTURE, FailureKind.BUDGET])
def test_what_ended_early(kind: FailureKind) -> None:
    assert modes_of_rollout(make_failed_rollout(kind)) == [kind.value]
    assert modes_of_rollout(make_failed_rollout(FailureKind.MODEL)) == ["model_failure"]


@pytest.mark.parametrize(
    ("changes", "sessions", "primary"),
    [
        ({"sub_calls": 0}, [], "never_debugged"),
        ({"variant": "debug_tools_only", "sub_model": "", "debug_calls": 0}, [], "never_debugged"),
        ({"variant": "baseline", "sub_model": "", "sub_calls": 0}, [], "wrong_fix"),
        ({}, [{"failed": True}], "subagent_error"),
        ({}, [NOTHING_SEEN], "session_failed"),
        ({}, [{**NOTHING_SEEN, "launches": 0}], "static_analysis"),
        ({}, [{}] * 4, "high_complexity"),
        ({}, [{}] * 3, "wrong_fix_after_debugging"),
        ({}, [{"misread": 1, "ungrounded": 1}], "misread_value"),
        ({}, [NOTHING_SEEN, {}], "wrong_fix_after_debugging"),
        ({}, [NOTHING_SEEN, {"ungrounded": 1}], "session_failed"),
        ({"stop_reason": StopReason.STEP_LIMIT}, [{}], "step_limit"),
        ({"patch": ""}, [{}], "gave_up"),
        ({}, [{"touched": False}], "not_followed"),
        ({}, [{"touched": False}, {}], "wrong_fix_after_debugging"),
        ({}, [{"touched": None}], "wrong_fix_after_debugging"),
        ({}, [NOTHING_SEEN | {"sees_debugger": False}], "wrong_fix_after_debugging"),
        (
            {"variant": "baseline", "sub_model": "", "sub_calls": 0, "tests": BROKEN},
            [],
            "breaks_tests",
        ),
    ],
)
def test_primary_modes(
    changes: dict[str, Any], sessions: list[dict[str, Any]], primary: str
) -> None:
    held = [session(**each) for each in sessions]
    assert modes_of_rollout(unresolved(**changes), held)[0] == primary


def test_the_gold_patch_tells_the_place() -> None:
    assert modes_of_rollout(unresolved(), (session(),), (HERE,), (FAR,))[0] == "wrong_location"
    assert "wrong_location" not in modes_of_rollout(unresolved(), (session(),), (HERE,), (NEAR,))
    assert "wrong_location" not in modes_of_rollout(unresolved(), (session(),), (HERE,))


def test_all_that_hold_are_told() -> None:
    repaired = unresolved(
        variant="inspectcoder", tests=BROKEN, stop_reason=StopReason.ATTEMPT_LIMIT
    )
    assert modes_of_rollout(repaired, (session(),)) == [
        *("wrong_fix_after_debugging", "breaks_tests", "attempts_used_up"),
    ]


def test_there_is_always_one() -> None:
    for tests in ((), FAILED, BROKEN):
        for patch in ("", "--- a/x.py\n"):
            for variant in ("baseline", "debug2fix", "inspectcoder", "autosd"):
                assert modes_of_rollout(unresolved(tests=tests, patch=patch, variant=variant))


def test_the_paper_s_modes_are_among_them() -> None:
    assert set(OF_TABLE_4) < set(MODES)
    assert set(ANSWER_MODES) < set(MODES)
