"""What a run is estimated to cost, from which of its rollouts, and when."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import pytest

from collect.agents.config import Variant
from collect.errors import FailureKind
from collect.rollouts.batch import Cost, Forecast, estimate
from collect.rollouts.rollout import RolloutSpec
from collect.store.records import Rollout
from tests.collect.models.contexts import context
from tests.records import make_failed_rollout, make_rollout

NOTHING = Cost(0.0, 0)


def specs(count: int, *variants: Variant) -> list[RolloutSpec]:
    instance = context().instance
    return [
        RolloutSpec(replace(instance, id=f"bug-{number}"), variant, "large", None, 0)
        for number in range(count)
        for variant in variants or (Variant.BASELINE,)
    ]


def done(spec: RolloutSpec, dollars: float) -> Rollout:
    return make_rollout(spec.instance.id, rollout_id=spec.id, dollars=dollars)


def costs(*dollars: float) -> list[Cost]:
    return [Cost(each, 1000) for each in dollars]


def test_each_kind_is_weighed_by_what_is_left_of_it() -> None:
    sample: dict[Hashable, list[Cost]] = {"dear": costs(4.0, 6.0), "cheap": costs(0.5, 1.5)}
    found = estimate(sample, Cost(12.0, 4000), {"dear": 10, "cheap": 100})
    assert found.dollars == pytest.approx(12 + 10 * 5 + 100 * 1)
    assert found.tokens == 4000 + 110 * 1000
    # Student's quantile for 2 degrees of freedom; the means' variance and that of the rest.
    error = 4.30265 * ((10 + 100 / 2) * 2.0 + (100 + 10_000 / 2) * 0.5) ** 0.5
    assert found.high == pytest.approx(found.dollars + error, rel=1e-5)
    assert found.low == 12.0, "what is spent is spent"


def test_a_kind_with_too_small_a_sample_costs_what_all_do() -> None:
    found = estimate({"a": costs(1.0, 3.0)}, NOTHING, {"b": 2})
    assert found.dollars == pytest.approx(4.0)
    found = estimate({"a": costs(1.0, 3.0), "b": costs(5.0)}, NOTHING, {"b": 2})
    assert found.dollars == pytest.approx(6.0)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    import random

    generator = random.Random(7)
    held = 0
    for _ in range(400):
        every = [generator.gammavariate(4, 1.0) for _ in range(200)]
        found = estimate({"a": costs(*every[:10])}, Cost(sum(every[:10]), 0), {"a": 190})
        held += found.low <= sum(every) <= found.high
    assert held / 400 == pytest.approx(0.95, abs=0.035)


def test_in_words() -> None:
    words = estimate({"a": costs(1.0, 1.0)}, NOTHING, {"a": 20}).text
    assert words == "$20.00 ($20.00 to $20.00 at 95% confidence) and 20.0k tokens"
    assert estimate({"a": costs(0.0, 0.0)}, NOTHING, {"a": 20}).text == "20.0k tokens"


def told(forecast: Forecast, rows: Sequence[Rollout]) -> list[float | None]:
    found = []
    for row in rows:
        forecast.ended(row)
        each = forecast.estimate()
        found.append(None if each is None else each.dollars)
    return found


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
    asked = specs(9, Variant.BASELINE, Variant.DEBUG2FIX, Variant.DEBUG_TOOLS_ONLY)
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
