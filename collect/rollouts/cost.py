"""Estimates a run's cost from its first rollouts, and checks its budget."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import takewhile
from statistics import fmean, variance
from typing import NamedTuple

from collect.config import RunnerConfig
from collect.errors import TRIED_AGAIN, ConfigError
from collect.models.config import EndpointConfig, ModelConfig
from collect.quantities import dollars, tokens
from collect.rollouts.rollout import RolloutSpec
from collect.store.records import Rollout

CONFIDENCE = 0.95
LEAST = 2
"""Rollouts of each kind that an estimate needs for its variance."""


class Cost(NamedTuple):
    """The cost of some rollouts."""

    dollars: float
    tokens: int


class Estimate(NamedTuple):
    """The cost of a whole run, with an interval for the dollars."""

    dollars: float
    low: float
    high: float
    tokens: float
    rollouts: int
    """Size of the sample."""

    @property
    def text(self) -> str:
        """The estimate as text; without dollars if nothing costs any."""
        took = f"{tokens(self.tokens)} tokens"
        if not self.high:
            return took
        between = f"{dollars(self.low)} to {dollars(self.high)} at {CONFIDENCE:.0%} confidence"
        return f"{dollars(self.dollars)} ({between}) and {took}"


def estimate(
    sample: Mapping[Hashable, Sequence[Cost]], spent: Cost, left: Mapping[Hashable, int]
) -> Estimate:
    """What is `spent`, plus `left` rollouts by kind at the sample's cost.

    A kind with too small a sample is assumed to cost the overall mean. The interval is Student's
    prediction interval for the remaining rollouts. It can't know whether later bugs are harder.
    """
    from scipy.special import stdtrit

    pool = [cost for costs in sample.values() for cost in costs]
    to_come, more_tokens, squares = 0.0, 0.0, 0.0
    for kind, count in left.items():
        of_kind = sample.get(kind, ())
        costs = of_kind if len(of_kind) >= LEAST else pool
        to_come += count * fmean(cost.dollars for cost in costs)
        more_tokens += count * fmean(cost.tokens for cost in costs)
        squares += (count + count**2 / len(costs)) * variance(cost.dollars for cost in costs)
    freedom = max(1, len(pool) - len(sample))
    error = float(stdtrit(freedom, 0.5 + CONFIDENCE / 2)) * math.sqrt(squares)
    total = spent.dollars + to_come
    low = max(spent.dollars, total - error)
    return Estimate(total, low, total + error, spent.tokens + more_tokens, len(pool))


class Forecast:
    """Estimates from the first rollouts in order, once all of them have ended, because those that
    end first are the short ones. Repeats whenever their number has doubled. Not thread-safe."""

    def __init__(
        self, specs: Sequence[RolloutSpec], rows: Iterable[Rollout], spent: float, after: int
    ) -> None:
        """`specs` are all rollouts of the run, `rows` those of earlier starts.

        `spent` is the dollars of all starts. The first estimate uses `after` rollouts, or more
        until each variant is among them twice.
        """
        # Rollouts of one kind cost about the same.
        self._kinds = {spec.id: (spec.variant, spec.main, spec.sub) for spec in specs}
        self._costs: dict[str, Cost] = {}
        self._ended: set[str] = set()
        self._due_at = max(after, LEAST * len({*self._kinds.values()}))
        for row in rows:
            if row.failure_kind not in TRIED_AGAIN:
                self.ended(row)
        self._sunk = max(0.0, spent - sum(cost.dollars for cost in self._costs.values()))

    def ended(self, row: Rollout) -> None:
        """Count a rollout."""
        self._ended.add(row.rollout_id)
        # Infrastructure failures say little about a rollout's cost.
        if row.failure_kind not in TRIED_AGAIN:
            self._costs[row.rollout_id] = Cost(row.dollars, row.tokens)

    def estimate(self) -> Estimate | None:
        """The estimate for the whole run; None if there is nothing new to say."""
        first = list(takewhile(self._ended.__contains__, self._kinds))
        known = [key for key in first if key in self._costs]
        if len(known) < self._due_at:
            return None
        self._due_at = 2 * len(known)
        left: Counter[Hashable] = Counter(
            kind for key, kind in self._kinds.items() if key not in self._costs
        )
        if not left:
            return None
        sample: defaultdict[Hashable, list[Cost]] = defaultdict(list)
        for key in known:
            sample[self._kinds[key]].append(self._costs[key])
        costs = self._costs.values()
        paid = self._sunk + sum(cost.dollars for cost in costs)
        return estimate(sample, Cost(paid, sum(cost.tokens for cost in costs)), left)


def check_dollars(runner: RunnerConfig, models: Iterable[ModelConfig], spent: float) -> str:
    """Text on what is spent and on the budget. Raises ConfigError for a budget that can't take
    effect."""
    budget = runner.budget_dollars
    if budget is None:
        return f"{dollars(spent)} spent; no limit is set"
    endpoints = [model for model in models if isinstance(model, EndpointConfig)]
    if endpoints and all(model.prices.free for model in endpoints):
        raise ConfigError(
            "runner.budget_dollars is set, but no model has prices, so it would never be reached: "
            "set models.NAME.prices, or runner.budget_dollars=null"
        )
    return f"{dollars(spent)} spent; budget_dollars is {budget:g}"
