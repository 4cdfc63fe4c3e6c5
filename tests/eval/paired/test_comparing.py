"""Arms against each other, from outcomes made by hand."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats

from collect.errors import FailureKind
from eval.config import StatisticsConfig
from eval.metrics import Arm
from eval.paired import (
    Bug,
    Outcomes,
    PairedComparison,
    align,
    compare_pair,
    compare_pairs,
    outcomes_by_arm,
)
from tests.eval.paired.outcomes import BASELINE, FRONTIER, SMALL, once, several
from tests.records import make_failed_rollout, make_rollout

CONFIG = StatisticsConfig(resamples=1000)


def compared(
    first: Outcomes, second: Outcomes, config: StatisticsConfig = CONFIG
) -> PairedComparison:
    return compare_pair(SMALL, BASELINE, {SMALL: first, BASELINE: second}, config)


def test_one_attempt_a_bug() -> None:
    found = compared(once([1] * 8 + [0] * 2), once([0] * 6 + [1] * 2 + [0] * 2))
    assert (found.instances, found.attempts, found.left_out) == (10, 10, 0)
    assert (found.first_rate, found.second_rate, found.difference) == pytest.approx((80, 20, 60))
    assert (found.first_better, found.second_better) == (6, 0)
    assert found.p == pytest.approx(2 / 64)
    assert found.discordance == pytest.approx(0.6)
    assert found.low is not None
    assert 0 < found.low < 60
    assert found.significant is None, "that is known once all comparisons are"


def test_several_attempts_a_bug() -> None:
    found = compared(several([[1, 1, 1]] * 4 + [[0, 1, 0]]), several([[0, 0, 0]] * 4 + [[1, 1, 1]]))
    assert (found.instances, found.attempts) == (5, 15)
    # Gaps of 3, 3, 3, 3 and -2: of 32 sign flips the observed sum is reached or passed by two.
    assert found.p == pytest.approx(2 * 2 / 32)


def test_only_what_both_were_judged_on_counts() -> None:
    rows = [
        make_rollout("a", sub_model="large"),
        make_rollout("b", sub_model="large", resolved=False),
        make_failed_rollout(FailureKind.MODEL, "c", sub_model="large"),
        make_failed_rollout(FailureKind.INFRASTRUCTURE, "d", sub_model="large"),
        make_rollout("a"),
        make_failed_rollout(FailureKind.BUDGET, "b"),
        make_rollout("c"),
        make_rollout("d"),
        make_rollout("a", 1),
    ]
    found = compare_pair(SMALL, FRONTIER, outcomes_by_arm(rows), CONFIG)
    assert (found.instances, found.attempts, found.left_out) == (2, 2, 2)
    assert (found.first_rate, found.second_rate) == (100, 50)


def in_repositories(*results: list[list[int]]) -> Outcomes:
    """The attempts at the bugs of repositories a, b, and so on."""
    named = zip("abcdefgh", results, strict=False)
    return {bug: tried for name, bugs in named for bug, tried in several(bugs, name).items()}


FIRST = [[[1], [1], [1]], [[1], [1], [0]], [[1], [0]], [[1]], [[0], [1], [0]], [[1], [1]]]
SECOND = [[[0], [0], [0]], [[1], [0], [0]], [[0], [0]], [[0]], [[1], [0], [0]], [[0], [1]]]
GAPS, BUGS = [3, 1, 1, 1, 0, 1], [3, 3, 2, 1, 3, 2]
"""Bugs that only the first arm resolved, less those that only the second did, by repository."""


def test_a_test_by_repository() -> None:
    config = CONFIG.model_copy(update={"cluster": "repository"})
    first, second = in_repositories(*FIRST), in_repositories(*SECOND)
    found = compared(first, second, config)
    assert (found.instances, found.attempts, found.repositories) == (14, 14, 6)
    assert (found.first_better, found.second_better) == (8, 1), "these are bugs"
    # Of the signs of the six gaps, those that are at least as extreme as the observed ones.
    sums = [abs(np.dot(signs, GAPS)) for signs in product((1, -1), repeat=6)]
    assert found.p == pytest.approx(np.mean([each >= 7 for each in sums]))
    assert compared(first, second).p == stats.binomtest(8, 9).pvalue


def test_an_interval_by_repository() -> None:
    first, second = in_repositories(*FIRST, [[0]] * 4), in_repositories(*SECOND, [[1]] * 4)
    config = StatisticsConfig(cluster="repository")
    found, by_bug = compared(first, second, config), compared(first, second, CONFIG)
    gaps, bugs = np.array([*GAPS, -4]), np.array([*BUGS, 4])
    # The jackknife, another estimate of the same spread.
    without = (gaps.sum() - gaps) / (bugs.sum() - bugs)
    error = stats.t.isf(0.025, 6) * np.sqrt(6) * np.std(without)
    assert found.low == pytest.approx(100 * (3 / 18 - error), rel=0.15)
    assert found.high == pytest.approx(100 * (3 / 18 + error), rel=0.15)
    assert found.low is not None
    assert by_bug.low is not None
    assert found.low < by_bug.low, "four bugs of one repository that say the same are one"


def test_the_difference_without_each_repository() -> None:
    found = compared(in_repositories(*FIRST), in_repositories(*SECOND))
    assert found.difference == pytest.approx(100 * 7 / 14)
    assert found.without == pytest.approx(
        {"a": 400 / 11, "b": 600 / 11, "c": 600 / 12, "d": 600 / 13, "e": 700 / 11, "f": 600 / 12}
    )
    assert found.range_without == pytest.approx((400 / 11, 700 / 11))
    alone = compared(once([1, 0]), once([0, 0]))
    assert (alone.without, alone.range_without) == ({}, (None, None))


def test_repositories_whose_bugs_agree_need_more_bugs() -> None:
    first = in_repositories(*[[[1]] * 4] * 3, *[[[0]] * 4] * 3)
    second = in_repositories(*[[[0]] * 4] * 3, *[[[1]] * 4] * 3)
    by_bug = compared(first, second)
    by_repository = compared(first, second, CONFIG.model_copy(update={"cluster": "repository"}))
    assert by_bug.discordance == by_repository.discordance == 1
    # (1.96 + 0.8416 * sqrt(1 - 0.05 ** 2)) ** 2 / 0.05 ** 2 = 3137.8, here of repositories.
    assert by_bug.instances_for_planned == 3138
    assert by_repository.instances_for_planned == 4 * 3138


def test_nothing_is_shared() -> None:
    a, b = ("a", "ledger"), ("b", "ledger")
    outcomes: dict[Arm, dict[Bug, dict[int, bool]]]
    outcomes = {SMALL: {a: {0: True}}, BASELINE: {b: {0: True}, a: {}}}
    (found,) = compare_pairs(outcomes, [(SMALL, BASELINE)], CONFIG)
    assert (found.instances, found.left_out) == (0, 2)
    assert found.p is found.difference is found.non_inferior is found.instances_for_planned is None


def test_equal_arms() -> None:
    found = compared(once([1, 0] * 200), once([1, 0] * 200))
    assert (found.difference, found.p) == (0, 1)
    assert found.non_inferior, "of 400 bugs not one was lost"
    assert not compared(once([1, 0]), once([1, 0])).non_inferior


@pytest.mark.parametrize(("margin", "expected"), [(1, False), (30, True)])
def test_non_inferiority(margin: float, expected: bool) -> None:
    config = StatisticsConfig(resamples=1000, margin=margin)
    found = compared(once([1] * 30 + [0] * 20), once([1] * 28 + [0] * 20 + [1] * 2), config)
    assert found.non_inferior is expected
    assert found.low is not None
    assert (found.low > -margin) is expected


def test_holm_over_all_comparisons() -> None:
    other = Arm("debug2fix", "large", "other")
    outcomes = {
        SMALL: once([1] * 7 + [0] * 3),
        BASELINE: once([0] * 10),
        other: once([0] * 9 + [1]),
    }
    pairs = [(SMALL, BASELINE), (other, BASELINE), (SMALL, other)]
    found = compare_pairs(outcomes, pairs, CONFIG)
    assert [each.p for each in found] == pytest.approx([1 / 64, 1.0, 9 / 128])
    assert [each.p_corrected for each in found] == pytest.approx([3 / 64, 1.0, 18 / 128])
    assert [each.significant for each in found] == [True, False, False]


def test_the_order_of_rollouts_does_not_matter() -> None:
    rows = [make_rollout(name, resolved=name in "ab") for name in "abcdef"]
    rows += [make_rollout(name, sub_model="large") for name in "abcdef"]
    forward, backward = outcomes_by_arm(rows), outcomes_by_arm(reversed(rows))
    assert compare_pair(SMALL, FRONTIER, forward, CONFIG) == compare_pair(
        SMALL, FRONTIER, backward, CONFIG
    )
    assert align([forward[SMALL]]).successes.tolist() == [[1, 1, 0, 0, 0, 0]]
