from datetime import date, timedelta

import pytest

from calrules import Calendar, Rule, parse_rule
from calrules.rules import add_months

LAST = date(2023, 12, 31)


def days(rule, first, last=LAST):
    return [day.isoformat()[5:] for day in rule.days(first, last)]


def test_every_third_day():
    assert days(Rule("day", 3, times=3), date(2023, 2, 27)) == ["02-27", "03-02", "03-05"]


def test_until_is_included():
    assert days(Rule("day", until=date(2023, 1, 2)), date(2023, 1, 1)) == ["01-01", "01-02"]


def test_week_without_weekdays():
    assert days(Rule("week", 2, times=3), date(2023, 1, 4)) == ["01-04", "01-18", "02-01"]


def test_weekdays_count_from_the_first_day():
    rule = Rule("week", 1, weekdays=(2, 0), times=4)
    assert days(rule, date(2023, 1, 3)) == ["01-04", "01-09", "01-11", "01-16"]


def test_every_quarter():
    assert days(Rule("month", 3), date(2023, 1, 15)) == ["01-15", "04-15", "07-15", "10-15"]


@pytest.mark.parametrize(
    ("months", "expected"),
    [
        (1, date(2023, 2, 28)),
        (12, date(2024, 1, 31)),
        (13, date(2024, 2, 29)),
        (-1, date(2022, 12, 31)),
    ],
    ids=["short", "year", "leap", "back"],
)
def test_add_months(months, expected):
    assert add_months(date(2023, 1, 31), months) == expected


def test_parse_weekly_rule():
    rule = parse_rule("every 2 weeks on mon, wed 5 times")
    assert (rule.unit, rule.every, rule.times) == ("week", 2, 5)
    assert list(rule.weekdays) == [0, 2]


def test_parse_short_rule():
    assert parse_rule("every month until 2023-05-01").until == date(2023, 5, 1)


@pytest.mark.parametrize(
    "text", ["each day", "every week on foo", "every month on mon"], ids=["each", "foo", "month"]
)
def test_parse_nonsense(text):
    with pytest.raises(ValueError, match="rule|weekdays"):
        parse_rule(text)


def test_add_business_days():
    calendar = Calendar([date(2023, 4, 7), date(2023, 4, 10)])
    assert calendar.add(date(2023, 4, 6), 1) == date(2023, 4, 11)
    assert calendar.add(date(2023, 4, 11), -1) == date(2023, 4, 6)


def test_roll():
    calendar = Calendar()
    saturday = date(2023, 9, 30)
    assert calendar.roll(saturday, "following") == date(2023, 10, 2)
    assert calendar.roll(saturday, "preceding") == date(2023, 9, 29)
    assert calendar.roll(saturday, "modified") == date(2023, 9, 29)
    assert calendar.roll(saturday - timedelta(days=1), "modified") == date(2023, 9, 29)
