"""Confidence intervals for rates."""

from __future__ import annotations

import math
from collections.abc import Sequence

Z95 = 1.959963984540054


def wilson(rate: float, trials: float, z: float = Z95) -> tuple[float, float]:
    """Wilson's score interval for a rate in 0..1 over `trials` > 0 independent trials."""
    centre = rate + z * z / (2 * trials)
    spread = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def clustered_wilson(clusters: Sequence[Sequence[bool]], z: float = Z95) -> tuple[float, float]:
    """Wilson's interval for the mean over all trials, which depend on each other in a cluster.

    The number of trials is replaced by the effective one, rate * (1 - rate) / variance, with the
    variance of the mean between clusters (the ratio estimator of survey sampling); it lies between
    the number of clusters and the number of trials. With one trial a cluster this is `wilson`.
    """
    trials = sum(len(cluster) for cluster in clusters)
    rate = sum(sum(cluster) for cluster in clusters) / trials
    count, spread = len(clusters), rate * (1 - rate)
    effective = float(count)
    if count > 1 and spread > 0:
        residuals = (sum(cluster) - rate * len(cluster) for cluster in clusters)
        variance = count / (count - 1) * sum(r * r for r in residuals) / trials**2
        effective = min(trials, max(count, spread / variance if variance else trials))
    return wilson(rate, effective, z)
