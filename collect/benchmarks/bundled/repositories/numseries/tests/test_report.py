import pytest

from numseries import Series
from numseries.report import around, outliers, profile


def test_outlier_is_found():
    series = Series(range(8), [10, 11, 10, 11, 10, 30, 10, 11])
    assert outliers(series, size=4) == [5]


def test_gaps_are_no_outliers():
    series = Series(range(9), [10, 11, None, 11, 10, None, None, 30, 10])
    assert outliers(series, size=4) == [7]


def test_too_few_values_before_for_an_outlier():
    series = Series(range(6), [None, None, 10, None, 99, None])
    assert outliers(series, size=2) == []


def test_outlier_after_a_longer_gap():
    values = [10, 90, None, None, None, 21, 20, 60, 21]
    assert outliers(Series(range(len(values)), values), size=3) == [7]


def test_outlier_long_after_a_gap():
    values = [20, 22, None, None, None, 21, 20, 22, 21, 60, 21]
    assert outliers(Series(range(len(values)), values), size=3) == [9]


def test_profile_of_a_cycle():
    series = Series(range(6), [1, 5, 9, 3, 7, 11])
    assert profile(series, 3) == {0: 2, 1: 6, 2: 10}


def test_profile_fills_gaps():
    series = Series([0, 1, 3, 4, 5], [0, 2, 6, 8, 10])
    assert profile(series, 2) == {0: 4, 1: 6}


def test_profile_of_steps_that_hold_several_values():
    series = Series([0, 1, 2, 3, 4, 5, 6, 7], [1, 3, 5, 7, 1, 3, 5, 7])
    assert profile(series, 2, step=2) == {0: 2, 1: 6}


def test_values_around_an_event():
    series = Series(range(100, 112), range(12))
    result = around(series, event=106, reach=6, step=3)
    assert list(result) == [(-6, 1), (-3, 4), (0, 7), (3, 10)]


def test_values_between_the_steps_around_an_event():
    series = Series([97, 98, 99, 101, 102, 103], [1, 2, 3, 7, 8, 9])
    result = around(series, event=100, reach=4, step=4)
    assert list(result) == [(-4, 2), (0, 8)]


def test_cycle_before_and_after_an_event():
    series = Series([-3.5, -2.5, -1.5, -0.5, 0.5, 1.5], [1, 9, 1, 9, 1, 9])
    assert profile(series, 2) == pytest.approx({0: 1, 1: 9})
