"""The outcomes of several arms on what all of them were judged on.

Outcomes form independent clusters: a bug with its attempts, or a bug with the questions about it.
Within a cluster they depend on each other, so every test and interval here uses the cluster as its
unit. Attempts are paired by their number, which is also that of their seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collect.store.records import Rollout
from eval.metrics import Arm, arm_of, has_verdict, instance_of

Counts = NDArray[np.int64]
Outcomes = Mapping[Any, Mapping[Any, bool]]
"""By cluster, then by attempt; both keys are arbitrary. A cluster without attempts was tried but
never judged."""


@dataclass(frozen=True)
class Aligned:
    """Some arms, reduced to the attempts for which all of them have a verdict."""

    successes: Counts
    """One row per arm, one column per cluster."""
    trials: Counts
    """Number of attempts per cluster, at least one."""
    left_out: int
    """Number of clusters that were not judged in all arms."""

    @property
    def clusters(self) -> int:
        return len(self.trials)

    def rates(self) -> list[float]:
        """Share of successes of each arm, in 0..1; needs at least one cluster."""
        total = self.trials.sum()
        return [float(row.sum() / total) for row in self.successes]

    def gaps(self) -> Counts:
        """By cluster, the first arm's successes minus the second's."""
        gaps: Counts = self.successes[0] - self.successes[1]
        return gaps


def outcomes_by_arm(rollouts: Iterable[Rollout]) -> dict[Arm, dict[Any, dict[Any, bool]]]:
    """Whether each arm's rollouts resolved their bug, without rollouts that have no verdict."""
    arms: dict[Arm, dict[Any, dict[Any, bool]]] = {}
    for row in rollouts:
        attempts = arms.setdefault(arm_of(row), {}).setdefault(instance_of(row), {})
        if has_verdict(row):
            attempts[row.attempt] = row.resolved
    return arms


def align(arms: Sequence[Outcomes]) -> Aligned:
    """The arms on their shared attempts, in a deterministic order."""
    tried = set().union(*arms)
    shared = {cluster: _shared_attempts(arms, cluster) for cluster in sorted(tried, key=repr)}
    kept = {cluster: attempts for cluster, attempts in shared.items() if attempts}
    successes = [
        [sum(arm[cluster][attempt] for attempt in attempts) for cluster, attempts in kept.items()]
        for arm in arms
    ]
    trials = [len(attempts) for attempts in kept.values()]
    shape = (len(arms), len(kept))
    return Aligned(
        np.array(successes, dtype=np.int64).reshape(shape),
        np.array(trials, dtype=np.int64),
        len(tried) - len(kept),
    )


def _shared_attempts(arms: Sequence[Outcomes], cluster: Any) -> set[Any]:
    return set.intersection(*(set(arm.get(cluster, ())) for arm in arms))
