"""The metrics of the papers, from rollouts made by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collect.errors import FailureKind
from collect.store.records import Rollout
from eval.metrics import Arm, ArmMetrics, Seconds, change, clustered_wilson, compare, wilson
from tests.records import make_failed_rollout, make_rollout

NO_SUBAGENT: dict[str, Any] = {
    "sub_model": "",
    "sub_calls": 0,
    "sub_steps": 0,
    "sub_prompt_tokens": 0,
    "sub_completion_tokens": 0,
}

TWO_TIMES_FOUR = [(bug, attempt) for bug in ("easy", "hard") for attempt in range(4)]


def baseline_rollout(instance_id: str, **changes: Any) -> Rollout:
    return make_rollout(instance_id, variant="baseline", **NO_SUBAGENT | changes)


def only(*rollouts: Rollout) -> ArmMetrics:
    (metrics,) = compare(rollouts).arms
    return metrics


def test_rates_and_averages() -> None:
    metrics = only(
        make_rollout("a", main_steps=10, sub_steps=20, dollars=0.5),
        make_rollout("b", main_steps=20, sub_steps=30, dollars=0.25, resolved=False),
        make_rollout("c", **NO_SUBAGENT | {"sub_model": "small"}, main_steps=30, dollars=0.25),
        make_rollout("d", main_steps=40, sub_steps=10, dollars=1.0, resolved=False),
    )
    assert metrics.arm == Arm("debug2fix", "large", "small")
    assert (metrics.rollouts, metrics.instances, metrics.resolved) == (4, 4, 2)
    assert metrics.pass_rate == 50
    assert metrics.call_rate == 75
    assert (metrics.main_steps, metrics.sub_steps, metrics.sub_steps_all) == (25, 20, 15)
    assert metrics.main_tokens == 9600
    assert (metrics.sub_tokens, metrics.sub_tokens_all) == (5300, 3975)
    assert (metrics.dollars, metrics.dollars_per_rollout, metrics.dollars_per_fix) == (2, 0.5, 1)
    assert (metrics.seconds, metrics.debug_seconds) == (12.5, 11)
    assert metrics.fixes_per_dollar == 1
    assert metrics.fixes_per_hour == pytest.approx(2 * 3600 / 44)
    assert not metrics.scripted


def test_dollars_and_seconds_of_main_and_sub() -> None:
    asking: dict[str, Any] = {
        "seconds": 20.0,
        "scoring_seconds": 2.0,
        "dollars": 0.5,
        "sub_dollars": 0.125,
    }
    alone = NO_SUBAGENT | {"sub_model": "small", "dollars": 0.25, "sub_dollars": 0.0}
    rows = [
        make_rollout("a", **asking),
        make_rollout("b", **asking | {"sub_dollars": 0.25}),
        make_rollout("c", **alone, seconds=9.0, scoring_seconds=1.0),
        make_rollout("of-no-conversation", **alone),
    ]
    parts = (Seconds(6.0, 4.0), Seconds(3.0, 1.0), Seconds(0.0, 0.0))
    seconds = {row.rollout_id: part for row, part in zip(rows, parts, strict=False)}
    (metrics,) = compare(rows, seconds=seconds).arms
    assert metrics.main_dollars == (0.375 + 0.25 + 0.25 + 0.25) / 4
    assert metrics.sub_dollars == (0.125 + 0.25) / 2, "over those that asked"
    assert metrics.main_seconds == pytest.approx((12 + 15 + 8) / 3)
    assert metrics.sub_seconds == (6 + 3) / 2
    (unknown,) = compare(rows).arms
    assert unknown.main_seconds is unknown.sub_seconds is None


def test_tampered_rollouts_count_as_not_resolved() -> None:
    tampered = make_rollout("b", resolved=False, tampered="its twin passes, which must fail")
    metrics = only(make_rollout("a"), tampered)
    assert (metrics.rollouts, metrics.resolved, metrics.tampered) == (2, 1, 1)


def test_failures_without_a_verdict_are_excluded() -> None:
    failed = {"invalid_tool_calls": 5, "main_steps": 900, "dollars": 1.0}
    metrics = only(
        make_rollout("a", dollars=0.5, invalid_tool_calls=2, refused_tool_calls=1),
        make_failed_rollout(FailureKind.MODEL, "b", dollars=0.5, invalid_tool_calls=1),
        make_failed_rollout(FailureKind.INFRASTRUCTURE, "c", **failed),
        make_failed_rollout(FailureKind.BUDGET, "d", **failed),
    )
    assert (metrics.rollouts, metrics.excluded) == (2, 2)
    assert metrics.failures == {"model": 1, "infrastructure": 1, "budget": 1}
    assert metrics.pass_rate == 50
    assert metrics.main_steps == 4
    assert (metrics.invalid_tool_calls, metrics.refused_tool_calls) == (3, 1)
    assert (metrics.dollars, metrics.dollars_per_rollout) == (3.0, 0.5)


def test_an_arm_of_failures_only_has_no_rates() -> None:
    metrics = only(make_failed_rollout(FailureKind.BUDGET))
    assert metrics.rollouts == 0
    assert metrics.pass_rate is metrics.pass_low is metrics.main_steps is None
    assert metrics.call_rate is metrics.dollars_per_fix is metrics.fixes_per_hour is None


def test_a_variant_without_subagent_has_no_call_rate() -> None:
    metrics = only(baseline_rollout("a", debug_calls=0, debug_stops=0))
    assert metrics.call_rate is metrics.sub_steps is metrics.sub_steps_all is None
    assert metrics.debug_success is None


def test_debug_success_is_of_the_rollouts_that_debugged() -> None:
    metrics = only(
        make_rollout("a"),
        make_rollout("b", debug_stops=0),
        make_rollout("c", debug_calls=0, debug_stops=0),
    )
    assert metrics.debug_success == 50


def test_arms_are_compared_on_common_instances() -> None:
    comparison = compare(
        [
            *(baseline_rollout(name, resolved=name == "a") for name in "abc"),
            *(make_rollout(name) for name in "bcd"),
            make_failed_rollout(FailureKind.INFRASTRUCTURE, "a"),
            make_failed_rollout(FailureKind.BUDGET, "a", main_model="other"),
        ]
    )
    assert comparison.instances == (("bundled", "b"), ("bundled", "c"))
    assert comparison.left_out == (("bundled", "a"), ("bundled", "d"))
    rates = {metrics.arm.variant: metrics.pass_rate for metrics in comparison.arms[:2]}
    assert rates == {"baseline": 0, "debug2fix": 100}


def test_arms_are_compared_on_common_attempts() -> None:
    lost = {"failure_kind": FailureKind.INFRASTRUCTURE}
    rows = [baseline_rollout(bug, attempt=n, resolved=bug == "easy") for bug, n in TWO_TIMES_FOUR]
    rows += [
        make_rollout(bug, n, resolved=bug == "easy", **lost if bug == "hard" and n else {})
        for bug, n in TWO_TIMES_FOUR
    ]
    comparison = compare(rows)
    assert [(m.rollouts, m.instances, m.pass_rate) for m in comparison.arms] == [(5, 2, 80)] * 2
    assert (comparison.left_out, comparison.attempts_left_out) == ((), 3)
    assert (("bundled", "hard"), 0) in comparison.attempts
    assert (("bundled", "hard"), 1) not in comparison.attempts


def test_a_bug_without_a_common_attempt_is_left_out() -> None:
    rows = [baseline_rollout("a", attempt=0), make_rollout("a", 1)]
    comparison = compare([*rows, baseline_rollout("b"), make_rollout("b")])
    assert comparison.instances == (("bundled", "b"),)
    assert (comparison.left_out, comparison.attempts_left_out) == ((("bundled", "a"),), 0)


def test_bugs_of_two_benchmarks_with_one_name_are_two() -> None:
    metrics = only(make_rollout("a"), make_rollout("a", 0, benchmark="other"))
    assert metrics.instances == 2


def test_the_baseline_is_of_the_same_main_model() -> None:
    comparison = compare(
        [
            baseline_rollout("a", main_steps=4),
            baseline_rollout("a", main_model="other", main_steps=8),
            make_rollout("a", main_model="other"),
            make_rollout("a", main_model="third"),
        ]
    )

    def baseline(*arm: str) -> ArmMetrics | None:
        return comparison.baseline_of(Arm(*arm))

    found = baseline("debug2fix", "other", "small")
    assert found is not None
    assert found.main_steps == 8
    assert baseline("debug2fix", "third", "small") is None
    assert baseline("baseline", "other", "") is None


def test_relative_change() -> None:
    # Debug2Fix, table 1: 60.8 (+1.0%) and 64.5 (-14.8%).
    assert change(60.8, 60.2) == pytest.approx(1.0, abs=0.05)
    assert change(64.5, 75.7) == pytest.approx(-14.8, abs=0.05)
    assert change(5, 0) is change(None, 3) is change(3, None) is None


def test_wilson_against_published_values() -> None:
    # Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    for count, trials, low, high in [
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ]:
        assert wilson(count / trials, trials) == pytest.approx((low, high), abs=5e-5)


def test_attempts_that_agree_add_no_certainty() -> None:
    once = [[True], [False], [True], [True], [False], [True]]
    thrice = [cluster * 3 for cluster in once]
    assert clustered_wilson(once) == wilson(4 / 6, 6)
    assert clustered_wilson(thrice) == pytest.approx(wilson(4 / 6, 6), abs=0.03)
    assert clustered_wilson([[True] * 5]) == wilson(1.0, 1)
    assert clustered_wilson([[True, False]] * 10) == wilson(0.5, 20.0)


def test_an_interval_by_repository() -> None:
    rows = [make_rollout(f"{name}-{n}", resolved=name == "a") for name in "ab" for n in range(9)]
    [by_bug], [metrics] = compare(rows).arms, compare(rows, cluster="repository").arms
    assert (metrics.instances, metrics.pass_rate) == (18, 50)
    assert (metrics.pass_low, metrics.pass_high) == tuple(100 * end for end in wilson(0.5, 2))
    assert (by_bug.pass_low, by_bug.pass_high) == tuple(100 * end for end in wilson(0.5, 18))


@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=5), min_size=1, max_size=30))
def test_an_interval_holds_its_rate(clusters: list[list[bool]]) -> None:
    trials = sum(len(cluster) for cluster in clusters)
    rate = sum(sum(cluster) for cluster in clusters) / trials
    low, high = clustered_wilson(clusters)
    assert 0 <= low <= rate + 1e-9
    assert rate - 1e-9 <= high <= 1
    assert not math.isnan(low + high)
    narrow = wilson(rate, trials)
    assert high - low >= narrow[1] - narrow[0] - 1e-9


def test_a_model_failure_is_judged_by_its_patch() -> None:
    rows = [
        make_failed_rollout(FailureKind.MODEL, "bug-1", resolved=True),
        make_failed_rollout(FailureKind.MODEL, "bug-2", resolved=False),
    ]
    [metrics] = compare(rows).arms
    assert (metrics.rollouts, metrics.resolved, metrics.excluded) == (2, 1, 0)
