"""How many bugs it takes."""

from __future__ import annotations

import numpy as np
import pytest

from eval.paired import Aligned, clusters_needed, discordance, mcnemar
from tests.eval.paired.outcomes import table


def test_the_formula_by_hand() -> None:
    # (1.96 * sqrt(0.375) + 1.2816 * sqrt(0.375 - 0.125 ** 2)) ** 2 / 0.125 ** 2 = 247.99
    assert clusters_needed(0.125, 0.375, 0.9, 0.05) == 248
    assert clusters_needed(-0.125, 0.375, 0.9, 0.05) == 248


def test_there_is_no_less_discordance_than_difference() -> None:
    assert clusters_needed(0.1, 0.0, 0.8, 0.05) == clusters_needed(0.1, 0.1, 0.8, 0.05)
    assert clusters_needed(1.0, 0.0, 0.8, 0.05) == 4
    assert clusters_needed(0.0, 0.3, 0.8, 0.05) is None


@pytest.mark.slow
def test_so_many_bugs_do_see_it() -> None:
    bugs = clusters_needed(0.15, 0.35, 0.8, 0.05)
    assert bugs is not None
    rng = np.random.default_rng(7)
    draws = rng.multinomial(bugs, [0.25, 0.10, 0.65], size=1000)
    seen = np.mean([mcnemar(int(better), int(worse)) < 0.05 for better, worse, _ in draws])
    # McNemar's exact test is a little conservative, the formula is of the asymptotic one.
    assert 0.74 <= seen <= 0.84


def test_discordance() -> None:
    assert discordance(table(5, 3, 1, 1)) == pytest.approx(0.4)
    attempts = Aligned(np.array([[3, 1], [1, 2]]), np.array([4, 4]), 0)
    assert discordance(attempts) == pytest.approx((0.25 + 0.0625) / 2)
    sizes = Aligned(np.array([[1, 2, 9], [0, 0, 0]]), np.array([1, 2, 9]), 0)
    assert discordance(sizes) == pytest.approx(1)
