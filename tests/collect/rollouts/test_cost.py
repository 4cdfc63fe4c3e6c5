"""What a run is estimated to cost, from which of its rollouts, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from collect.errors import FailureKind
from collect.rollouts.batch import Forecast
from collect.rollouts.rollout import RolloutSpec
from collect.store.records import Rollout
from tests.collect.models.contexts import context
from tests.records import make_failed_rollout, make_rollout


def specs(count: int, *variants: str) -> list[RolloutSpec]:
    instance = context().instance
    return [
        RolloutSpec(replace(instance, id=f"bug-{number}"), variant, "large", None, 0)
        for number in range(count)
        for variant in variants or ("baseline",)
    ]


def done(spec: RolloutSpec, dollars: float) -> Rollout:
    return make_rollout(spec.instance.id, rollout_id=spec.id, dollars=dollars)


def told(forecast: Forecast, rows: Sequence[Rollout]) -> list[float | None]:
    found = []
    for row in rows:
        forecast.ended(row)
        each = forecast.estimate()
        found.append(None if each is None else each.dollars)
    return found


def test_each_kind_is_weighed_by_what_is_left_of_it() -> None:
    asked = specs(50, "baseline", "debug2fix")
    forecast = Forecast(asked, [], 0.0, after=4)
    found = told(forecast, [done(*each) for each in zip(asked[:4], (4, 0.5, 6, 1.5), strict=True)])
    assert found == [None] * 3 + [pytest.approx(50 * 5 + 50 * 1)]


def test_a_kind_that_is_not_known_costs_what_all_do() -> None:
    asked = [*specs(4), *specs(2, "debug2fix")]
    rows = [done(spec, cost) for spec, cost in zip(asked[:4], (1, 3, 1, 3), strict=True)]
    assert told(Forecast(asked, [], 0.0, after=4), rows) == [None] * 3 + [pytest.approx(12.0)]


def test_the_first_rollouts_count_and_not_those_that_end_first() -> None:
    asked = specs(100)
    forecast = Forecast(asked, [], 0.0, after=3)
    short = [done(spec, 0.01) for spec in asked[1:40]]
    assert told(forecast, short) == [None] * 39
    forecast.ended(done(asked[0], 40.0))
    found = forecast.estimate()
    assert found is not None
    assert found.rollouts == 40
    assert found.dollars == pytest.approx((40.0 + 0.39) * 100 / 40)


def test_it_is_told_again_of_twice_as_many() -> None:
    asked = specs(9)
    forecast = Forecast(asked, [], 0.0, after=2)
    rows = [done(spec, 1.0) for spec in asked]
    found = told(forecast, rows)
    assert [index + 1 for index, each in enumerate(found) if each is not None] == [2, 4, 8]


def test_two_of_each_variant_are_waited_for() -> None:
    asked = specs(9, "baseline", "debug2fix", "debug_tools_only")
    forecast = Forecast(asked, [], 0.0, after=1)
    found = told(forecast, [done(spec, 1.0) for spec in asked[:6]])
    assert found == [None] * 5 + [27.0]


def test_earlier_starts_count_with_all_that_they_spent() -> None:
    asked = specs(10)
    forecast = Forecast(asked, [done(spec, 1.0) for spec in asked[:4]], 7.5, after=4)
    found = forecast.estimate()
    assert found is not None
    assert found.dollars == pytest.approx(10 + 3.5)


def test_failures_of_the_infrastructure_say_nothing_of_costs() -> None:
    asked = specs(4)
    failed = make_failed_rollout(FailureKind.INFRASTRUCTURE, rollout_id=asked[0].id, dollars=9.0)
    forecast = Forecast(asked, [failed], 0.0, after=2)
    found = told(forecast, [done(spec, 1.0) for spec in asked[1:3]])
    assert found == [None, None], "the first has not ended in this start"
    assert told(forecast, [failed]) == [pytest.approx(4.0)]


def test_what_is_done_again_counts() -> None:
    asked = specs(12)
    forecast = Forecast(asked, [], 0.0, 10)
    failed = [asked[0], asked[2], asked[4]]
    for spec in asked:
        if spec in failed:
            row = make_failed_rollout(FailureKind.INFRASTRUCTURE, rollout_id=spec.id)
        else:
            row = done(spec, 1.0)
        forecast.ended(row)
        assert forecast.estimate() is None
    forecast.ended(done(failed[0], 1.0))
    found = forecast.estimate()
    assert found is not None
    assert found.dollars == pytest.approx(12.0)
