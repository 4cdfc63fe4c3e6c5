"""How many bugs it takes to see a difference."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from eval.paired.outcomes import Aligned


def discordance(pair: Aligned) -> float:
    """With one attempt a bug, the share of bugs that exactly one of the arms resolves.

    With several: the mean square of the clusters' differences, which is the same for one attempt.
    That clusters are of different sizes does not count as difference.
    """
    trials, gaps = pair.trials, pair.gaps()
    difference = gaps.sum() / trials.sum()
    spread = np.mean((gaps - difference * trials) ** 2) / trials.mean() ** 2
    return float(spread + difference**2)


def clusters_needed(difference: float, discordant: float, power: float, level: float) -> int | None:
    """The clusters with which a two-sided paired test sees a difference in -1..1 with that power.

    The formula of Miettinen (1968) and Connor (1987) for McNemar's test, with the discordance that
    was observed; there is at least as much of it as there is difference. None: of no difference.
    """
    if difference == 0:
        return None
    spread = max(discordant, abs(difference))
    sure = float(stats.norm.isf(level / 2)) * math.sqrt(spread)
    seen = float(stats.norm.isf(1 - power)) * math.sqrt(spread - difference**2)
    return math.ceil((sure + seen) ** 2 / difference**2)
