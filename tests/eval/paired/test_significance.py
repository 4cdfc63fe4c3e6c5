"""The tests against published cases, and against each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.paired import holm, mcnemar, sign_flip

DARWIN = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
"""Heights of cross- minus self-fertilised plants, in eighths of an inch."""


def test_mcnemar_by_hand() -> None:
    assert mcnemar(2, 8) == pytest.approx(2 * (1 + 10 + 45) / 1024)
    assert mcnemar(0, 6) == pytest.approx(2 / 64)
    assert mcnemar(3, 3) == mcnemar(0, 0) == 1


def test_mcnemar_against_statsmodels() -> None:
    # statsmodels.stats.contingency_tables.mcnemar(..., exact=True): Agresti's approval ratings,
    # and an example of its own.
    assert mcnemar(150, 86) == pytest.approx(3.716e-05, rel=1e-3)
    assert mcnemar(121, 59) == pytest.approx(4.434e-06, rel=1e-3)


def test_sign_flips_of_darwins_plants() -> None:
    # Fisher, The Design of Experiments, section 21: 863 of 32768 sums are at least as large.
    assert sign_flip(np.array(DARWIN), 40_000, 0) == pytest.approx(2 * 863 / 32768)
    assert sign_flip(np.array(DARWIN), 10_000, 0) == pytest.approx(2 * 863 / 32768, abs=0.01)


@settings(max_examples=25)
@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 20))
def test_with_one_attempt_sign_flips_are_mcnemar(better: int, worse: int, ties: int) -> None:
    gaps = np.array([1] * better + [-1] * worse + [0] * ties, dtype=np.int64)
    assert sign_flip(gaps, 10_000, 0) == pytest.approx(mcnemar(better, worse))


def test_attempts_that_agree_add_no_certainty() -> None:
    gaps = np.array([1, 1, 1, 1, -1])
    assert sign_flip(3 * gaps, 10_000, 0) == sign_flip(gaps, 10_000, 0) == mcnemar(4, 1)
    assert mcnemar(12, 3) < 0.05, "what McNemar makes of three attempts that say the same"


def test_random_permutations_are_the_same_for_a_seed() -> None:
    gaps = np.array([1] * 30 + [-1] * 15)
    assert sign_flip(gaps, 1000, 5) == sign_flip(gaps, 1000, 5)
    assert sign_flip(gaps, 10_000, 1) == pytest.approx(mcnemar(30, 15), abs=0.01)


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([0.2]) == [0.2]
    assert holm([]) == []
