"""The share of the frontier's gain that a small model recovers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from scipy import stats

from eval.config import StatisticsConfig
from eval.metrics import Arm
from eval.paired import Bug, Outcomes, RecoveredGain, recovered_gain, unseen_share
from tests.eval.paired.outcomes import BASELINE, FRONTIER, SMALL, once

CONFIG = StatisticsConfig(resamples=1000)
ARMS = (SMALL, FRONTIER, BASELINE)


def recovered(small: list[int], frontier: list[int], baseline: list[int]) -> RecoveredGain:
    outcomes = {SMALL: once(small), FRONTIER: once(frontier), BASELINE: once(baseline)}
    return recovered_gain(ARMS, outcomes, CONFIG)


def test_half_of_it() -> None:
    found = recovered([1] * 60 + [0] * 40, [1] * 80 + [0] * 20, [1] * 40 + [0] * 60)
    assert (found.gain, found.share) == pytest.approx((40, 50))
    assert found.low is not None
    assert found.high is not None
    # The share is that of the 40 gained bugs which the small model resolves: 50 % of 40.
    assert found.low == pytest.approx(34.5, abs=4)
    assert found.high == pytest.approx(65.5, abs=4)
    assert (found.instances, found.left_out, found.undefined) == (100, 0, "")


def test_all_of_it_and_none_of_it() -> None:
    frontier, baseline = [1] * 80 + [0] * 20, [1] * 40 + [0] * 60
    assert recovered(frontier, frontier, baseline).share == 100
    assert recovered(baseline, frontier, baseline).share == 0
    worse = recovered([0] * 100, frontier, baseline)
    assert worse.share == -100


def test_what_no_bug_showed_is_not_known_to_be_impossible() -> None:
    frontier, baseline = [1] * 8 + [0] * 4, [0] * 12
    unseen = 100 * unseen_share(12, 0.05) * 12 / 8
    every = recovered(frontier, frontier, baseline)
    assert (every.low, every.high) == pytest.approx((100 - unseen, 100 + unseen))
    none = recovered(baseline, frontier, baseline)
    assert (none.low, none.high) == pytest.approx((-unseen, unseen))


def test_the_same_share_of_each_bug_is_not_known_exactly() -> None:
    gains = [(2, 4, 0)] * 9 + [(2, 0, 4)]
    held: dict[Arm, Outcomes] = {
        arm: {
            (str(bug), "one"): {n: n < each[at] for n in range(4)} for bug, each in enumerate(gains)
        }
        for at, arm in enumerate(ARMS)
    }
    found = recovered_gain(ARMS, held, StatisticsConfig())
    unseen = 100 * unseen_share(10, 0.05) * 10 / 8
    assert (found.low, found.high) == pytest.approx((50 - unseen, 50 + unseen))


def test_by_repository() -> None:
    held: dict[Arm, dict[Bug, Mapping[int, bool]]] = {arm: {} for arm in ARMS}
    # By repository: bugs that the small model, the frontier and the baseline resolve, of 4.
    for number, resolved in enumerate([(3, 4, 0), (2, 4, 1), (4, 4, 2), (0, 4, 1), (2, 3, 0)]):
        for arm, count in zip(ARMS, resolved, strict=True):
            held[arm] |= once([1] * count + [0] * (4 - count), f"repository-{number}")
    config = StatisticsConfig(cluster="repository")
    found = recovered_gain(ARMS, held, config)
    assert found.instances == 20
    assert found.share == pytest.approx(100 * 7 / 15)
    small, frontier = np.array([3, 1, 2, -1, 2]), np.array([4, 3, 2, 3, 3])
    # By Fieller (1954), what is left of the small model's gain at either end is just not 0.
    assert found.low is not None
    left = small - found.low / 100 * frontier
    assert left.mean() == pytest.approx(stats.t.isf(0.025, 4) * np.std(left, ddof=1) / 5**0.5)
    assert found.high is not None
    left = small - found.high / 100 * frontier
    assert left.mean() == pytest.approx(-stats.t.isf(0.025, 4) * np.std(left, ddof=1) / 5**0.5)
    # No repository in which the small model is better than both; of 20 bugs that says less.
    assert found.high > 100 * 7 / 15 + 100 * unseen_share(20 / 1.3, 0.05) / (15 / 20)


def test_undefined_without_a_gain() -> None:
    same = recovered([1, 0] * 20, [1, 0] * 20, [1, 0] * 20)
    assert (same.share, same.low, same.high) == (None, None, None)
    assert "includes 0" in same.undefined
    assert same.gain == 0
    little = recovered([1] * 10, [1] * 10, [1] * 9 + [0])
    assert "includes 0" in little.undefined
    assert "worse" in recovered([1] * 40, [0] * 40, [1] * 30 + [0] * 10).undefined


def test_undefined_without_shared_bugs() -> None:
    elsewhere: Outcomes = {("other", "ledger"): {0: True}}
    outcomes = {SMALL: once([1]), FRONTIER: once([1]), BASELINE: elsewhere}
    found = recovered_gain(ARMS, outcomes, CONFIG)
    assert (found.instances, found.left_out) == (0, 2)
    assert "no bug that all three" in found.undefined
    assert recovered([1], [1], [0]).share is None


@pytest.mark.slow
def test_coverage() -> None:
    rng = np.random.default_rng(11)
    held = []
    for _ in range(200):
        baseline = rng.random(80) < 0.3
        frontier = baseline | (rng.random(80) < 0.5)
        small = np.where(frontier & ~baseline, rng.random(80) < 0.6, baseline)
        found = recovered(small.tolist(), frontier.tolist(), baseline.tolist())
        assert found.low is not None
        assert found.high is not None
        held.append(found.low <= 60 <= found.high)
    assert np.mean(held) >= 0.92


@pytest.mark.parametrize("share", [0.05, 0.1, 0.9, 0.95])
@pytest.mark.parametrize("bugs", [12, 20, 30])
def test_coverage_of_nearly_none_or_all_of_few_bugs(bugs: int, share: float) -> None:
    rng = np.random.default_rng(12)
    held = []
    for _ in range(50):
        frontier = rng.random(bugs) < 0.6
        small = frontier & (rng.random(bugs) < share)
        found = recovered(small.tolist(), frontier.tolist(), [0] * bugs)
        if not found.undefined:
            low = -math.inf if found.low is None else found.low
            high = math.inf if found.high is None else found.high
            held.append(low <= 100 * share <= high)
    assert len(held) >= 40
    assert np.mean(held) >= 0.88
