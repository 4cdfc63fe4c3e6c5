import pytest

from numseries import Series, SeriesError
from numseries.matrix import Factors, multiply, transpose
from numseries.report import detrended, forecast


def curve(function, times):
    return Series(times, [function(t) for t in times])


def test_straight_line_goes_on():
    series = curve(lambda t: 3 * t + 1, range(6))
    assert forecast(series, 3) == pytest.approx([19, 22, 25])


def test_parabola_goes_on():
    series = curve(lambda t: t * t - 4 * t, range(7))
    assert forecast(series, 2, degree=2) == pytest.approx([21, 32])


def test_cubic_goes_on():
    series = curve(lambda t: t**3 - 2 * t, range(9))
    assert forecast(series, 2, degree=3) == pytest.approx([711, 980])


def test_uneven_times():
    series = curve(lambda t: 2 * t - 7, [0, 1, 5, 6, 20, 21])
    assert forecast(series, 1) == pytest.approx([37])


def test_trend_ignores_gaps():
    series = Series([0, 1, 2, 3], [0, None, 4, 6])
    assert forecast(series, 1) == pytest.approx([8])


def test_too_few_values():
    with pytest.raises(SeriesError, match="2 values are too few for degree 2"):
        forecast(Series([0, 1, 2], [1, 2, None]), 1, degree=2)


def test_detrended_line_is_flat():
    series = curve(lambda t: 5 - 2 * t, range(5))
    assert detrended(series).values == pytest.approx([0] * 5)


def test_equations_are_solved():
    factors = Factors([[2, 1], [1, 3]])
    assert factors.solve([3, 5]) == pytest.approx([0.8, 1.4])
    assert factors.solve([1, 0]) == pytest.approx([0.6, -0.2])


def test_equations_without_a_solution():
    with pytest.raises(SeriesError, match="no unique solution"):
        Factors([[1, 2], [2, 4]])


def test_product_of_matrices():
    assert multiply([[1, 2], [3, 4]], [[0, 1], [1, 0]]) == [[2, 1], [4, 3]]
    assert transpose([[1, 2, 3]]) == [[1], [2], [3]]
