"""Tests of a difference between two arms, and their correction for how many there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from eval.paired.outcomes import Counts

BATCH = 1000
"""Resamples at once, which bounds the memory."""


def mcnemar(only_first: int, only_second: int) -> float:
    """The two-sided p-value of McNemar's exact test, from the numbers of discordant pairs.

    For one attempt a bug: it takes pairs for independent of each other.
    """
    discordant = only_first + only_second
    return float(stats.binomtest(only_first, discordant).pvalue) if discordant else 1.0


def sign_flip(gaps: Counts, resamples: int, seed: int) -> float:
    """The two-sided p-value of a permutation test that swaps the two arms within whole clusters.

    Several attempts at one bug succeed and fail together, so McNemar's test over all pairs of
    attempts finds too much (Eliasziw and Donner 1991; Durkalski et al. 2003). Where the arms do not
    differ, a bug's attempts as a whole may as well be the other arm's: that flips the sign of its
    gap, whatever the dependence within it. With one attempt a bug this is McNemar's exact test.
    All permutations are tried where that takes no more than `resamples`; else so many random ones.
    """
    moved = gaps[gaps != 0].astype(float)
    if len(moved) < 2:
        return 1.0
    result = stats.permutation_test(
        (moved,),
        np.sum,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=BATCH,
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def holm(p_values: Sequence[float]) -> list[float]:
    """The p-values corrected by Holm (1979): the chance of any false find stays below the level."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected
