"""Intervals: degenerate cases, and how often they hold the truth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import Generator

from eval.config import StatisticsConfig
from eval.paired import Aligned, difference_interval, unseen_share
from tests.eval.paired.outcomes import table

CONFIG = StatisticsConfig()
OTHER_RATES = ((0.2, 0.1), (0.02, 0.02), (0.01, 0.0))


def clustered(rng: Generator, bugs: int, attempts: int) -> Aligned:
    """Two arms with rates of 60 % and 50 %, on bugs that are easy or hard for both."""
    ease = rng.beta(1, 1, bugs)
    first = rng.binomial(attempts, np.clip(ease + 0.1, 0, 1))
    second = rng.binomial(attempts, ease)
    return Aligned(np.array([first, second]), np.full(bugs, attempts), 0)


def discordant(rng: Generator, bugs: int, better: float, worse: float) -> Aligned:
    """One attempt a bug, with given shares of bugs that only one arm resolves."""
    counts = rng.multinomial(bugs, [0.4, better, worse, 0.6 - better - worse])
    return table(*(int(count) for count in counts))


def coverage(pairs: list[Aligned], truth: float) -> float:
    intervals = [difference_interval(pair, CONFIG) for pair in pairs]
    return float(np.mean([low <= truth <= high for low, high in intervals]))


def test_rule_of_three() -> None:
    # Hanley and Lippman-Hand (1983): none of n leaves 3 / n at 95 %, one-sided.
    assert unseen_share(100, 0.1) == pytest.approx(0.0295, abs=5e-4)
    assert unseen_share(1, 0.05) == pytest.approx(0.975)


def test_arms_that_agree_everywhere_are_not_known_to_be_equal() -> None:
    (low, high), (_, of_many) = (difference_interval(table(n, 0, 0, n), CONFIG) for n in (5, 500))
    assert low == pytest.approx(-high) == pytest.approx(-unseen_share(10, 0.05))
    assert of_many < 0.005


def test_one_bug() -> None:
    won = difference_interval(table(0, 1, 0, 0), CONFIG)
    assert won == pytest.approx((-0.95, 1.0))
    tied = difference_interval(table(1, 0, 0, 0), CONFIG)
    assert tied == pytest.approx((-0.975, 0.975))


def test_a_bug_won_and_none_lost_is_no_proof() -> None:
    # Tango's score interval (1998) for 1 and 0 discordant of 30 is -0.08 to 0.17.
    low, high = difference_interval(table(20, 1, 0, 9), CONFIG)
    assert low == pytest.approx(-0.083, abs=0.01)
    assert high == pytest.approx(0.1, abs=0.04)


def test_few_repositories_that_agree_on_who_is_better() -> None:
    won, bugs = np.array([8, 5, 9, 6, 4, 7]), np.full(6, 10)
    pair = Aligned(np.array([won, np.array([2, 1, 3, 2, 0, 1])]), bugs, 0, judged=60)
    # The t interval of the mean of 0.6, 0.4, 0.6, 0.4, 0.4 and 0.6, with five degrees of freedom.
    error = 2.5706 * (np.var([0.6, 0.4] * 3, ddof=1) / 6 + 1 / 62**2) ** 0.5
    assert difference_interval(pair, CONFIG) == pytest.approx((0.5 - error, 0.5 + error), abs=1e-4)
    same = Aligned(np.array([won, won]), bugs, 0, judged=60)
    # Of ten bugs in one repository as much is independent as of 10 / 1.9.
    unseen = unseen_share(60 / 1.9, 0.05)
    assert difference_interval(same, CONFIG) == pytest.approx((-unseen, unseen))


def test_repositories_that_are_won_or_lost_as_a_whole() -> None:
    """One in twenty is lost, so four of five times none of five is."""
    rng = np.random.default_rng(2)
    bugs = np.full(5, 25)
    lost = [np.array([np.zeros(5, int), 25 * (rng.random(5) < 0.05)]) for _ in range(300)]
    assert coverage([Aligned(each, bugs, 0, judged=125) for each in lost], -0.05) >= 0.92


def test_against_the_normal_interval() -> None:
    """Of many bugs both are the same: Agresti's approval ratings, 944 of 1600 against 880."""
    found = difference_interval(table(794, 150, 86, 570), CONFIG)
    assert found == pytest.approx((0.0213, 0.0587), abs=0.003)


@pytest.mark.parametrize(
    ("better", "worse"),
    [(0.1, 0.0), *(pytest.param(*each, marks=pytest.mark.slow) for each in OTHER_RATES)],
)
def test_coverage_with_one_attempt(better: float, worse: float) -> None:
    rng = np.random.default_rng(3)
    pairs = [discordant(rng, 50, better, worse) for _ in range(300)]
    assert coverage(pairs, better - worse) >= 0.92


@pytest.mark.slow
@pytest.mark.parametrize("repositories", [6, 10, 20])
def test_coverage_with_few_repositories(repositories: int) -> None:
    """Eight bugs each: 25 % are won and 40 % lost on average, and the shares vary."""
    rng = np.random.default_rng(5)
    pairs = []
    for _ in range(300):
        won = rng.uniform(0, 0.5, repositories)
        first, lost, _ = rng.multinomial(8, np.stack([won, 0.65 - won, won * 0 + 0.35], 1)).T
        pairs.append(
            Aligned(np.array([first, lost]), np.full(repositories, 8), 0, (), 8 * repositories)
        )
    assert coverage(pairs, 0.25 - 0.4) >= 0.92


@pytest.mark.slow
def test_coverage_with_several_attempts() -> None:
    rng = np.random.default_rng(4)
    pairs = [clustered(rng, 40, 4) for _ in range(300)]
    # The mean of min(ease + 0.1, 1) - ease over ease in 0..1.
    assert coverage(pairs, 0.1 - 0.1**2 / 2) >= 0.92
