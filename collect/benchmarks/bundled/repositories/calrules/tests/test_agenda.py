from datetime import date, datetime, time, timedelta

import pytest

from calrules import Agenda, Calendar, Event, Interval, Rule, Zone, parse_rule
from calrules.intervals import gaps, merge

HOUR = timedelta(hours=1)
NEW_YORK = Zone(-5, [(datetime(2023, 3, 12, 7), -4), (datetime(2023, 11, 5, 6), -5)])
BERLIN = Zone(1, [(datetime(2023, 3, 26, 1), 2), (datetime(2023, 10, 29, 1), 1)])


def span(first, last):
    return Interval(datetime.fromisoformat(first), datetime.fromisoformat(last))


def starts(agenda, window):
    return [start.strftime("%m-%d %H:%M") for start, _ in agenda.entries(window)]


def test_merge_joins_what_touches():
    parts = [
        span("2023-01-01T10:00", "2023-01-01T11:00"),
        span("2023-01-01T09:00", "2023-01-01T10:00"),
    ]
    assert merge(parts) == [span("2023-01-01T09:00", "2023-01-01T11:00")]


def test_gaps():
    window = span("2023-01-01T09:00", "2023-01-01T12:00")
    taken = [
        span("2023-01-01T08:00", "2023-01-01T09:30"),
        span("2023-01-01T11:00", "2023-01-01T13:00"),
    ]
    assert gaps(window, taken) == [span("2023-01-01T09:30", "2023-01-01T11:00")]


def test_gaps_of_a_free_day():
    window = span("2023-01-01T09:00", "2023-01-01T12:00")
    assert gaps(window, []) == [window]


def test_local_time():
    assert NEW_YORK.to_local(datetime(2023, 3, 12, 6, 59)) == datetime(2023, 3, 12, 1, 59)
    assert NEW_YORK.to_local(datetime(2023, 3, 12, 7)) == datetime(2023, 3, 12, 3)


@pytest.mark.parametrize("zone", [NEW_YORK, BERLIN], ids=["new_york", "berlin"])
@pytest.mark.parametrize("month", [1, 7])
def test_there_and_back(zone, month):
    moment = datetime(2023, month, 15, 12)
    assert zone.to_utc(zone.to_local(moment)) == moment


def test_daily_event_in_utc():
    event = Event("stand-up", date(2023, 1, 2), time(9), HOUR, Rule("day"))
    window = span("2023-01-03T00:00", "2023-01-05T00:00")
    assert starts(Agenda(event), window) == ["01-03 09:00", "01-04 09:00"]


def test_event_that_lasts_over_midnight():
    event = Event("batch", date(2023, 1, 2), time(23), 3 * HOUR, Rule("day", times=1))
    window = span("2023-01-03T00:00", "2023-01-04T00:00")
    assert Agenda(event).busy(window) == [span("2023-01-03T00:00", "2023-01-03T02:00")]


def test_free_time_between_two_zones():
    early = Event("Berlin", date(2023, 1, 2), time(10), 2 * HOUR, Rule("day"), BERLIN)
    late = Event("New York", date(2023, 1, 2), time(9), 2 * HOUR, Rule("day"), NEW_YORK)
    window = span("2023-01-03T08:00", "2023-01-03T17:00")
    assert Agenda(early, late).free(window, 2 * HOUR) == [
        span("2023-01-03T11:00", "2023-01-03T14:00")
    ]


def test_maintenance_on_the_morning_of_the_change():
    event = Event("maintenance", date(2023, 3, 11), time(4), 2 * HOUR, Rule("day"), NEW_YORK)
    window = span("2023-03-12T06:00", "2023-03-12T14:00")
    assert Agenda(event).free(window, HOUR) == [
        span("2023-03-12T06:00", "2023-03-12T08:00"),
        span("2023-03-12T10:00", "2023-03-12T14:00"),
    ]


def test_rent_at_the_end_of_the_month():
    rule = parse_rule("every month 4 times")
    event = Event("rent", date(2023, 1, 31), time(8), HOUR, rule)
    window = span("2023-01-01T00:00", "2024-01-01T00:00")
    assert starts(Agenda(event), window) == [
        "01-31 08:00",
        "02-28 08:00",
        "03-31 08:00",
        "04-30 08:00",
    ]


def test_payments_move_to_business_days():
    event = Event(
        "wages",
        date(2023, 3, 25),
        time(8),
        HOUR,
        Rule("month", times=3),
        calendar=Calendar(),
        convention="preceding",
    )
    window = span("2023-01-01T00:00", "2024-01-01T00:00")
    assert starts(Agenda(event), window) == ["03-24 08:00", "04-25 08:00", "05-25 08:00"]


def test_course_on_two_weekdays():
    rule = parse_rule("every 2 weeks on tue, thu until 2023-02-02")
    event = Event("course", date(2023, 1, 3), time(18), 2 * HOUR, rule)
    window = span("2023-01-01T00:00", "2023-03-01T00:00")
    assert starts(Agenda(event), window) == [
        "01-03 18:00",
        "01-05 18:00",
        "01-17 18:00",
        "01-19 18:00",
        "01-31 18:00",
        "02-02 18:00",
    ]
