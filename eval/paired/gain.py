"""The share of the frontier model's gain as subagent that a small model also achieves."""

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
    """The three arms from which the share of a gain is computed."""

    small: Arm
    frontier: Arm
    baseline: Arm


@dataclass(frozen=True)
class RecoveredGain:
    """(small - baseline) / (frontier - baseline), in percent of the frontier's gain."""

    arms: GainArms
    instances: int
    """Bugs judged in all three arms."""
    left_out: int
    """Bugs tried in some arm, but not judged in all."""
    gain: float | None = None
    """The frontier's rate minus the baseline's, in percentage points."""
    gain_low: float | None = None
    gain_high: float | None = None
    share: float | None = None
    """In percent; None if undefined."""
    low: float | None = None
    """Bootstrap interval by bug; also None if unbounded on that side."""
    high: float | None = None
    undefined: str = ""
    """Why there is no share; empty if there is one."""


def recovered_gain(
    arms: GainArms, outcomes: Mapping[Arm, Outcomes], config: StatisticsConfig
) -> RecoveredGain:
    """The share; undefined if the interval of the frontier's gain includes 0 or is below it."""
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
    """The bootstrap interval, widened like a difference's if no cluster went a way that would
    change the share.

    If a share u of unseen clusters were lost by the small model to the frontier or the baseline,
    the recovered share would be u / gain smaller; if won, larger.
    """
    # Resampling needs two clusters; for a single cluster, the gain's interval includes 0.
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
    """Unbounded if a resample has no gain, because the share then grows without limit."""
    recovered = small.sum(axis) - baseline.sum(axis)
    gain = frontier.sum(axis) - baseline.sum(axis)
    unbounded = np.where(recovered == 0, 0.0, np.sign(recovered) * np.inf)
    return np.where(gain > 0, recovered / np.where(gain > 0, gain, 1), unbounded)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
