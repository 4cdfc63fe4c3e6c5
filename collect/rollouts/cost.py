"""Estimates a run's cost from its first rollouts, and checks its budget."""

from __future__ import annotations

import math
import threading
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, variance
from typing import Self

from collect.config import RunnerConfig
from collect.errors import TRIED_AGAIN, ConfigError
from collect.models.budget import spent_elsewhere
from collect.models.config import EndpointConfig, ModelConfig
from collect.quantities import dollars, duration, tokens
from collect.rollouts.progress import Progress
from collect.rollouts.rollout import RolloutSpec
from collect.store.records import Rollout

CONFIDENCE = 0.95
LEAST = 2
"""Rollouts of each kind that an estimate needs for its variance."""


@dataclass(frozen=True)
class Cost:
    """The cost of some rollouts."""

    dollars: float
    tokens: int

    @classmethod
    def of(cls, row: Rollout) -> Self:
        return cls(row.dollars, row.tokens)


@dataclass(frozen=True)
class Estimate:
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

        `spent` is the dollars of all starts, without those of replies that resumed rollouts replay.
        The first estimate uses `after` rollouts, or more until each variant is among them twice.
        """
        self._kinds = {spec.id: _kind(spec) for spec in specs}
        self._order = [spec.id for spec in specs]
        self._costs = {r.rollout_id: Cost.of(r) for r in rows if r.failure_kind not in TRIED_AGAIN}
        self._ended = {*self._costs}
        self._first = 0
        """This many rollouts, in order, have ended without a gap."""
        self._due_at = max(after, LEAST * len({*self._kinds.values()}))
        self._sunk = max(0.0, spent - sum(cost.dollars for cost in self._costs.values()))

    def ended(self, row: Rollout) -> None:
        """Count a rollout of this start."""
        self._ended.add(row.rollout_id)
        # Infrastructure failures say little about a rollout's cost.
        if row.failure_kind not in TRIED_AGAIN:
            self._costs[row.rollout_id] = Cost.of(row)

    def estimate(self) -> Estimate | None:
        """The estimate for the whole run; None if there is nothing new to say."""
        while self._first < len(self._order) and self._order[self._first] in self._ended:
            self._first += 1
        if self._first < self._due_at:
            return None
        known = [key for key in self._order[: self._first] if key in self._costs]
        if len(known) < self._due_at:
            return None
        self._due_at = 2 * len(known)
        left = Counter(kind for key, kind in self._kinds.items() if key not in self._costs)
        sample: defaultdict[Hashable, list[Cost]] = defaultdict(list)
        for key in known:
            sample[self._kinds[key]].append(self._costs[key])
        return estimate(sample, self._spent(), left) if left else None

    def _spent(self) -> Cost:
        costs = self._costs.values()
        dollars = self._sunk + sum(cost.dollars for cost in costs)
        return Cost(dollars, sum(cost.tokens for cost in costs))


def _kind(spec: RolloutSpec) -> Hashable:
    """Rollouts of one kind cost about the same."""
    return spec.variant, spec.main, spec.sub


class CostReporter:
    """Prints a forecast's estimates. Thread-safe."""

    def __init__(
        self, forecast: Forecast, progress: Progress, budget: float | None, folder: Path
    ) -> None:
        """`budget` is in dollars for the whole run; `folder` is that of the rollouts."""
        self._forecast, self._progress = forecast, progress
        self._budget, self._folder = budget, folder
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Print what earlier starts show."""
        with self._lock:
            self._tell()

    def ended(self, row: Rollout) -> None:
        """A rollout ended with a row."""
        with self._lock:
            self._forecast.ended(row)
            self._tell()

    def _tell(self) -> None:
        estimate = self._forecast.estimate()
        if estimate is None:
            return
        seconds = self._progress.seconds_left()
        rest = "" if seconds is None else f", {duration(seconds)} left at the present rate"
        basis = f"the first {estimate.rollouts} of {self._progress.total} rollouts"
        told = f"the whole run: about {estimate.text}{rest}; by {basis}"
        budget = self._budget
        if budget is not None and estimate.dollars > budget - spent_elsewhere(self._folder):
            told += f"; runner.budget_dollars={budget:g} ends it before"
        self._progress.tell(told)


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
