"""Agreement of two that sort the same things."""

from __future__ import annotations

import pytest

from eval.qualitative.tables import agreement


def test_kappa_of_the_textbook() -> None:
    """Of 50 proposals two readers both accept 20 and both refuse 15: kappa is 0.4."""
    cells = {("yes", "yes"): 20, ("yes", "no"): 5, ("no", "yes"): 10, ("no", "no"): 15}
    found = agreement([pair for pair, count in cells.items() for _ in range(count)])
    assert found.items == 50
    assert found.percent == pytest.approx(70)
    assert found.kappa == pytest.approx(0.4)
    assert (found.low, found.high) == pytest.approx((56.25, 80.90), abs=0.01)


def test_agreement_and_chance() -> None:
    assert agreement([("a", "a"), ("b", "b")]).kappa == 1
    assert agreement([("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")]).kappa == 0
    assert agreement([("a", "b"), ("b", "a")]).kappa == -1


def test_nothing_to_agree_on() -> None:
    assert agreement([]).percent is None
    one = agreement([("a", "a")] * 3)
    assert (one.percent, one.kappa) == (100, None)
