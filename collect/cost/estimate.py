"""What a run comes to, by its first rollouts."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Self

from collect.quantities import dollars, tokens
from collect.records import Rollout

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
