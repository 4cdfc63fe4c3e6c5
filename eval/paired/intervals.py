"""Bootstrap intervals of what is computed from paired arms, by cluster.

Percentile intervals: of arms that seldom differ, accelerated ones (BCa) are too narrow. In
simulations of 20 to 100 bugs with discordant shares of 4 % to 60 %, what follows held the truth in
93 % to 100 % at a level of 5 %, BCa in 55 % to 98 %.

A bootstrap only knows what it has seen: of ten bugs on which two arms agree it makes an interval of
no width. Where no cluster went one way, that end of the interval is therefore moved out to where
an exact test would still have had it: had more than a share u of clusters gone that way, none
among n would have been seen with a chance of less than half the level. That is the rule of three
(Hanley and Lippman-Hand 1983) at any level: u = 1 - (level / 2) ** (1 / n).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from eval.paired.config import StatisticsConfig
from eval.paired.outcomes import Aligned
from eval.paired.significance import BATCH

Floats = NDArray[np.float64]
Statistic = Callable[..., Any]
"""Of the successes of each arm and the trials, by cluster along `axis`."""


@dataclass(frozen=True)
class Interval:
    """The two ends, as shares; infinite where there is no bound."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        return self.low <= value <= self.high


def difference_interval(pair: Aligned, config: StatisticsConfig) -> Interval:
    """Of the rate of the first arm minus that of the second, in -1..1; there must be a cluster."""
    gaps = pair.gaps()
    estimate = float(gaps.sum() / pair.trials.sum())
    unseen = unseen_share(pair.clusters, config.level)
    if _constant(pair):
        return Interval(estimate - unseen * (1 + estimate), estimate + unseen * (1 - estimate))
    found = percentiles(resampled(pair, _difference, config), config.level)
    low = found.low if (gaps < 0).any() else min(found.low, estimate - unseen)
    high = found.high if (gaps > 0).any() else max(found.high, estimate + unseen)
    return Interval(max(low, -1.0), min(high, 1.0))


def unseen_share(clusters: int, level: float) -> float:
    """The largest share of something that may be there though none of so many clusters has it."""
    return float(1 - (level / 2) ** (1 / clusters))


def resampled(arms: Aligned, statistic: Statistic, config: StatisticsConfig) -> Floats:
    """A statistic's values over clusters drawn with replacement; there must be two clusters."""
    with np.errstate(divide="ignore", invalid="ignore"):
        result = stats.bootstrap(
            (*arms.successes, arms.trials),
            statistic,
            paired=True,
            vectorized=True,
            n_resamples=config.resamples,
            batch=BATCH,
            method="percentile",
            rng=np.random.default_rng(config.seed),
        )
    values: Floats = result.bootstrap_distribution
    return values


def percentiles(values: Floats, level: float) -> Interval:
    """The percentile interval: what lies between the outer halves of the level."""
    ends = np.quantile(values, [level / 2, 1 - level / 2], method="inverted_cdf")
    return Interval(float(ends[0]), float(ends[1]))


def _difference(first: Floats, second: Floats, trials: Floats, axis: int = -1) -> Any:
    return (first.sum(axis) - second.sum(axis)) / trials.sum(axis)


def _constant(pair: Aligned) -> bool:
    """Whether all clusters show the same difference, so that resampling them shows nothing."""
    gaps, trials = pair.gaps(), pair.trials
    return bool((gaps * trials[0] == gaps[0] * trials).all())
