import pytest

from numseries import Series, SeriesError
from numseries.gaps import fill_linear, fill_previous, value_at
from numseries.resample import resample
from numseries.rolling import rolling_deviation, rolling_mean


def numbered(*values):
    return Series(range(len(values)), values)


def test_times_must_increase():
    with pytest.raises(SeriesError, match="2 is followed by 2"):
        Series([1, 2, 2], [0, 0, 0])
    with pytest.raises(SeriesError, match="1 times for 2 values"):
        Series([1], [1, 2])


def test_map_and_minus_keep_gaps():
    series = numbered(1, None, 3)
    doubled = series.map(lambda value: 2 * value)
    assert doubled.values == [2, None, 6]
    assert doubled.minus(series).values == [1, None, 3]


def test_between_excludes_the_end():
    assert numbered(1, 2, 3, 4).between(1, 3).times == [1, 2]


def test_rolling_mean():
    assert rolling_mean(numbered(1, 2, 3, 4, 8), 3).values == [1, 1.5, 2, 3, 5]


def test_rolling_mean_skips_gaps():
    assert rolling_mean(numbered(1, None, 3), 3).values == [1, 1, 2]


def test_rolling_deviation():
    values = rolling_deviation(numbered(2, 4, 4, 6), 2).values
    assert values[0] is None
    assert values[1:] == pytest.approx([2**0.5, 0, 2**0.5])


def test_resample_means():
    series = Series([0, 1, 2, 3, 7], [1, 3, 5, 7, 9])
    assert list(resample(series, 2)) == [(0, 2), (2, 6), (4, None), (6, 9)]


@pytest.mark.parametrize(
    ("how", "expected"), [("sum", 6), ("min", 1), ("max", 3), ("last", 3), ("count", 3)]
)
def test_resample_in_other_ways(how, expected):
    assert resample(numbered(1, 2, None, 3), 10, how).values == [expected]


def test_value_between_two_times():
    series = Series([0, 10, 20], [5, None, 9])
    assert value_at(series, 5) == 6
    assert value_at(series, 20) == 9
    assert value_at(series, 21) is None


def test_filling_gaps():
    series = numbered(None, 2, None, None, 8, None)
    assert fill_linear(series).values == [None, 2, 4, 6, 8, None]
    assert fill_previous(series).values == [None, 2, 2, 2, 8, 8]
