"""How much of what the frontier model gains in the subagent's place a small one gains, too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eval.metrics import Arm
from eval.paired.comparing import (
    Floats,
    Interval,
    difference_interval,
    percentiles,
    resampled,
    unseen_share,
)
from eval.paired.config import StatisticsConfig
from eval.paired.outcomes import Aligned, Outcomes, align


@dataclass(frozen=True)
class GainArms:
    """The three arms that a share of a gain is of."""

    small: Arm
    frontier: Arm
    baseline: Arm


@dataclass(frozen=True)
class RecoveredGain:
    """(small - baseline) / (frontier - baseline), in percent of the frontier's gain."""

    arms: GainArms
    instances: int
    """Bugs that all three were judged on."""
    left_out: int
    """Bugs that any was tried on and not all were judged on."""
    gain: float | None = None
    """Percentage points that the frontier has more than the baseline."""
    gain_low: float | None = None
    gain_high: float | None = None
    share: float | None = None
    """In percent; None where it is undefined."""
    low: float | None = None
    """Bootstrap interval by bug; None also where there is no bound on that side."""
    high: float | None = None
    undefined: str = ""
    """Why there is no share; empty where there is one."""


def recovered_gain(
    arms: GainArms, outcomes: Mapping[Arm, Outcomes], config: StatisticsConfig
) -> RecoveredGain:
    """The share, undefined where the interval of the frontier's gain includes 0, or is below it."""
    aligned = align([outcomes[each] for each in (arms.small, arms.frontier, arms.baseline)])
    found = RecoveredGain(arms, aligned.clusters, aligned.left_out)
    if not aligned.clusters:
        return replace(found, undefined="there is no bug that all three arms were judged on")
    gain = Aligned(aligned.successes[1:], aligned.trials, aligned.left_out)
    interval = difference_interval(gain, config)
    small, frontier, baseline = aligned.rates()
    found = replace(
        found,
        gain=100 * (frontier - baseline),
        gain_low=100 * interval.low,
        gain_high=100 * interval.high,
    )
    if interval.low <= 0:
        return replace(found, undefined=_why(interval.high))
    share = (small - baseline) / (frontier - baseline)
    ends = _share_interval(aligned, share, frontier - baseline, config)
    return replace(
        found, share=100 * share, low=_finite(100 * ends.low), high=_finite(100 * ends.high)
    )


def _why(high: float) -> str:
    if high < 0:
        return "the frontier is worse than the baseline"
    return "the interval of the frontier's gain includes 0: there may be nothing to recover"


def _share_interval(arms: Aligned, share: float, gain: float, config: StatisticsConfig) -> Interval:
    """Moved out, as a difference's is, where no cluster went a way that would change the share.

    A share u of clusters that nobody saw lost, by the small model to the frontier or to the
    baseline, would make the recovered share u / gain smaller; of such that nobody saw won, larger.
    """
    # Resampling needs two clusters, and the gain of one alone has an interval with 0 in it.
    found = percentiles(resampled(arms, _share, config), config.level)
    small, others = arms.successes[0], arms.successes[1:]
    lost, won = (small < others).any(axis=1).all(), (small > others).any(axis=1).all()
    unseen = unseen_share(arms.clusters, config.level) / gain
    low = found.low if lost else min(found.low, share - unseen)
    high = found.high if won else max(found.high, share + unseen)
    return Interval(low, high)


def _share(
    small: Floats, frontier: Floats, baseline: Floats, trials: Floats, axis: int = -1
) -> Any:
    """Without bound where a resample has no gain: there the share of the rest grows without end."""
    recovered = small.sum(axis) - baseline.sum(axis)
    gain = frontier.sum(axis) - baseline.sum(axis)
    unbounded = np.where(recovered == 0, 0.0, np.sign(recovered) * np.inf)
    return np.where(gain > 0, recovered / np.where(gain > 0, gain, 1), unbounded)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
