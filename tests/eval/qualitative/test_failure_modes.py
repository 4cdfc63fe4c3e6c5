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


def session(*modes: str, touched: bool | None = True) -> Session:
    """A session with an answer that has these modes."""
    return Session(True, modes, touched)


def unresolved(**changes: Any) -> Rollout:
    fields: dict[str, Any] = {"resolved": False, "tests": FAILED}
    return make_rollout(**fields | changes)


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
        ({}, [session("subagent_error")], "subagent_error"),
        ({}, [session("session_failed")], "session_failed"),
        ({}, [session("static_analysis")], "static_analysis"),
        ({}, [session()] * 4, "high_complexity"),
        ({}, [session()] * 3, "wrong_fix_after_debugging"),
        ({}, [session("misread_value", "ungrounded")], "misread_value"),
        ({}, [session("session_failed"), session()], "wrong_fix_after_debugging"),
        ({}, [session("session_failed"), session("ungrounded")], "session_failed"),
        ({"stop_reason": StopReason.STEP_LIMIT}, [session()], "step_limit"),
        ({"patch": ""}, [session()], "gave_up"),
        ({}, [session(touched=False)], "not_followed"),
        ({}, [session(touched=False), session()], "wrong_fix_after_debugging"),
        ({}, [session(touched=None)], "wrong_fix_after_debugging"),
        ({}, [Session(True, (), None, finds=False)], "wrong_fix"),
        (
            {"variant": "baseline", "sub_model": "", "sub_calls": 0, "tests": BROKEN},
            [],
            "breaks_tests",
        ),
    ],
)
def test_primary_modes(changes: dict[str, Any], sessions: list[Session], primary: str) -> None:
    assert modes_of_rollout(unresolved(**changes), sessions)[0] == primary


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
