"""Tells what a run will cost, and asks whether it is to go on above a limit."""

from __future__ import annotations

import math
import os
import select
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import fmean, variance
from typing import Self

from collect.config import RunnerConfig
from collect.errors import TRIED_AGAIN, ConfigError
from collect.models.budget import spent_elsewhere
from collect.models.config import EndpointConfig, ModelConfig
from collect.models.waiting import POLL_SECONDS
from collect.quantities import dollars, duration, tokens
from collect.rollouts.progress import Progress
from collect.rollouts.rollout import RolloutSpec
from collect.store.atomic_files import write_text
from collect.store.records import Rollout

# What a run comes to, by its first rollouts.


CONFIDENCE = 0.95
LEAST = 2
"""Rollouts of each kind, without which nothing is known of how they differ."""


@dataclass(frozen=True)
class Cost:
    """What one rollout took."""

    kind: Hashable
    """Those of one kind cost about the same: they have the variant and the models in common."""
    dollars: float
    tokens: int

    @classmethod
    def of(cls, row: Rollout, kind: Hashable) -> Self:
        return cls(kind, row.dollars, row.tokens)


@dataclass(frozen=True)
class Estimate:
    """A whole run's costs, with an interval for the dollars."""

    dollars: float
    low: float
    high: float
    tokens: float

    @property
    def text(self) -> str:
        """In words; without dollars where nothing costs any."""
        took = f"{tokens(self.tokens)} tokens"
        if not self.high:
            return took
        between = f"{dollars(self.low)} to {dollars(self.high)} at {CONFIDENCE:.0%} confidence"
        return f"{dollars(self.dollars)} ({between}) and {took}"


def estimate(sample: Sequence[Cost], spent: Cost, left: Mapping[Hashable, int]) -> Estimate:
    """What is `spent`, and `left` rollouts, by kind, that cost what those of the sample did.

    A kind that the sample lacks is taken to cost what the others do. The interval is Student's: of
    the means, and of the rollouts to come around them. It knows nothing of later bugs being harder.
    """
    by_kind: defaultdict[Hashable, list[Cost]] = defaultdict(list)
    for cost in sample:
        by_kind[cost.kind].append(cost)
    to_come, squares, more_tokens = 0.0, 0.0, 0.0
    for kind, count in left.items():
        costs = by_kind.get(kind, sample)
        to_come += count * fmean(cost.dollars for cost in costs)
        more_tokens += count * fmean(cost.tokens for cost in costs)
        seen = costs if len(costs) >= LEAST else sample
        squares += (count + count**2 / len(costs)) * variance(cost.dollars for cost in seen)
    error = _quantile(len(sample) - len(by_kind)) * math.sqrt(squares)
    total = spent.dollars + to_come
    low = max(spent.dollars, total - error)
    return Estimate(total, low, total + error, spent.tokens + more_tokens)


def _quantile(freedom: int) -> float:
    """Of Student's distribution, on both sides."""
    from scipy.special import stdtrit

    return float(stdtrit(max(1, freedom), 0.5 + CONFIDENCE / 2))


# When enough rollouts of a run have ended to say what the whole of it costs.


class Forecast:
    """Estimates from the first rollouts in their order, once all of these have ended: those that
    end first would be the short ones. Again whenever there are twice as many. Not thread-safe."""

    def __init__(
        self, specs: Sequence[RolloutSpec], rows: Iterable[Rollout], spent: float, after: int
    ) -> None:
        """`specs` are all that is asked for, `rows` those that earlier starts did of them.

        `spent` are the dollars of all starts, but for what a rollout that goes on is given back.
        `after` is how many rollouts the first estimate is made from, if each variant is among them
        twice.
        """
        self._kinds = {spec.id: _kind(spec) for spec in specs}
        self._order = [spec.id for spec in specs]
        self._ended: set[str] = set()
        self._costs: dict[str, Cost] = {}
        self._passed = 0
        self._sample: list[Cost] = []
        self._passed_without: set[str] = set()
        """What failed because of the infrastructure, until it is done again."""
        self._made = False
        self._due_at = max(after, LEAST * len(set(self._kinds.values())))
        for row in rows:
            self._take_in(row)
        self._sunk = max(0.0, spent - sum(cost.dollars for cost in self._costs.values()))

    @property
    def basis(self) -> str:
        """What an estimate is made from, in words."""
        return f"the first {len(self._sample)} of {len(self._order)} rollouts"

    def ended(self, row: Rollout) -> None:
        """Count a rollout that this start did."""
        self._ended.add(row.rollout_id)
        self._take_in(row)

    def can_wait(self, rollout_id: str) -> bool:
        """Whether the first estimate is still to come, and needs others than this rollout: those
        before it, if none of them fails because of the infrastructure. What is done again can't."""
        if self._made or rollout_id in self._ended:
            return False
        hopeful = (key for key in self._order if key in self._costs or key not in self._ended)
        needed = list(islice(hopeful, self._due_at))
        return len(needed) == self._due_at and rollout_id not in needed

    def estimate(self) -> Estimate | None:
        """What the whole run comes to; None where there is no more to be said than before."""
        while self._passed < len(self._order) and self._order[self._passed] in self._ended:
            key = self._order[self._passed]
            self._passed += 1
            if key in self._costs:
                self._sample.append(self._costs[key])
            else:
                self._passed_without.add(key)
        if len(self._sample) < self._due_at:
            return None
        self._made = True
        self._due_at = 2 * len(self._sample)
        left = Counter(kind for key, kind in self._kinds.items() if key not in self._costs)
        return estimate(self._sample, self._spent(), left) if left else None

    def _take_in(self, row: Rollout) -> None:
        """What failed because of the infrastructure says little of what it costs."""
        if row.failure_kind not in TRIED_AGAIN:
            self._ended.add(row.rollout_id)
            cost = Cost.of(row, self._kinds[row.rollout_id])
            self._costs[row.rollout_id] = cost
            if row.rollout_id in self._passed_without:
                self._passed_without.remove(row.rollout_id)
                self._sample.append(cost)

    def _spent(self) -> Cost:
        costs = self._costs.values()
        dollars = self._sunk + sum(cost.dollars for cost in costs)
        return Cost(None, dollars, sum(cost.tokens for cost in costs))


def _kind(spec: RolloutSpec) -> Hashable:
    return spec.variant, spec.main, spec.sub


# A question to who sits at the terminal.


def somebody_is_there() -> bool:
    """Whether this process is in the foreground of a terminal; in the background, the kernel
    would suspend it for reading there."""
    try:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (AttributeError, OSError, ValueError):
        # No standard input at all, or a closed one.
        return False


def confirmed(question: str, stop: threading.Event) -> bool:
    """Ask, and wait for a line; whether it says yes. A stop is a no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    while not stop.is_set():
        if select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
            return sys.stdin.readline().strip().lower() in ("y", "yes")
    return False


ACCEPTED = "accepted_dollars.txt"
"""The highest estimate that the user agreed to."""
GROWTH = 1.5
"""An estimate that was agreed to is asked for again where it has grown by this factor."""


class CostWatch:
    """Thread-safe. While it asks, rollouts that end wait for the answer, and so no other begins;
    those under way go on."""

    def __init__(
        self,
        runner: RunnerConfig,
        forecast: Forecast,
        progress: Progress,
        stop: threading.Event,
        folder: Path,
    ) -> None:
        """`folder` is that of the rollouts; `stop` is set where the run is not to go on."""
        self._runner, self._forecast, self._progress = runner, forecast, progress
        self._stop, self._folder = stop, folder
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Say what is known from earlier starts, before anything is done."""
        with self._lock:
            self._look()

    def hold(self, rollout_id: str) -> None:
        """Wait while the user may be asked by an estimate that is made without this rollout."""
        while self._is_held(rollout_id) and not self._stop.wait(POLL_SECONDS):
            pass

    def ended(self, row: Rollout) -> None:
        """A rollout ended with a row."""
        with self._lock:
            self._forecast.ended(row)
            self._look()

    def _is_held(self, rollout_id: str) -> bool:
        if self._runner.ask_above_dollars is None or self._runner.confirmed:
            return False
        with self._lock:
            return self._forecast.can_wait(rollout_id)

    def _look(self) -> None:
        estimate = None if self._stop.is_set() else self._forecast.estimate()
        if estimate is None:
            return
        seconds = self._progress.seconds_left()
        rest = "" if seconds is None else f", {duration(seconds)} left at the present rate"
        told = f"the whole run: about {estimate.text}{rest}; by {self._forecast.basis}"
        budget = self._runner.budget_dollars
        if budget is not None and estimate.dollars > budget - spent_elsewhere(self._folder):
            told += f"; runner.budget_dollars={budget:g} ends it before"
        self._progress.tell(told)
        limit = self._runner.ask_above_dollars
        if limit is not None and estimate.dollars > max(limit, GROWTH * self._accepted()):
            self._ask(estimate, limit)

    def _ask(self, estimate: Estimate, limit: float) -> None:
        above = (
            f"about {dollars(estimate.dollars)} for the whole run is above "
            f"runner.ask_above_dollars={limit:g}"
        )
        if self._runner.confirmed or self._agreed(above):
            write_text(self._folder / ACCEPTED, f"{estimate.dollars}\n")
            return
        if self._stop.is_set():
            return
        self._stop.set()
        self._progress.tell(f"stepinto: {above}: set a higher one to go on, or give --yes")

    def _agreed(self, above: str) -> bool:
        if not somebody_is_there():
            return False
        with self._progress.put_away():
            return confirmed(f"stepinto: {above}; go on?", self._stop)

    def _accepted(self) -> float:
        path = self._folder / ACCEPTED
        return float(path.read_text()) if path.is_file() else 0.0


# What a run may cost, looked at before it starts.


def check_dollars(runner: RunnerConfig, models: Iterable[ModelConfig], spent: float) -> str:
    """What is spent, and the limits. Raises ConfigError for one that nothing counts against."""
    limits = {
        name: getattr(runner, name)
        for name in ("budget_dollars", "ask_above_dollars")
        if getattr(runner, name) is not None
    }
    endpoints = [model for model in models if isinstance(model, EndpointConfig)]
    if endpoints and all(model.prices.free for model in endpoints):
        for name in limits:
            raise ConfigError(
                f"runner.{name} is set, but no model has prices, so it would never be reached: "
                f"set models.NAME.prices, or runner.{name}=null"
            )
    told = ", ".join(f"{name} is {limit:g}" for name, limit in limits.items())
    return f"{dollars(spent)} spent; {told or 'no limit is set'}"
