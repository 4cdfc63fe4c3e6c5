"""What a debug session was good for: did the rollout need it?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from collect.agents.config import Variant
from collect.errors import TRIED_AGAIN
from collect.records import Rollout

WITHOUT_SUBAGENT = {
    Variant.DEBUG2FIX: Variant.BASELINE,
    Variant.DEBUG2FIX_TOOL_LIMIT: Variant.BASELINE,
    Variant.INSPECTCODER: Variant.SIMPLE_DEBUGGING,
}
"""Which variant is the same but for the agent that debugs."""
BASELINES = frozenset(variant.value for variant in WITHOUT_SUBAGENT.values())

PairKey = tuple[str, str, str, int, str, str]


@dataclass
class Pairs:
    """How the rollouts without a subagent ended, by what pairs them with those that have one."""

    resolved: dict[PairKey, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, rollouts: Iterable[Rollout]) -> Pairs:
        """Of a run's rollouts; those that failed for no doing of the model's pair with none."""
        pairs = cls()
        for rollout in rollouts:
            pairs.add(rollout)
        return pairs

    def add(self, rollout: Rollout) -> None:
        """Take in one more rollout of the run."""
        if rollout.variant in BASELINES and rollout.failure_kind not in TRIED_AGAIN:
            self.resolved[_pair(rollout, rollout.variant)] = rollout.resolved

    def debug_helped(self, rollout: Rollout) -> int | None:
        """1 where only the rollout with the subagent fixed the bug, -1 where only its pair did, 0
        where both or neither; None where there is no pair."""
        known = {variant.value: other.value for variant, other in WITHOUT_SUBAGENT.items()}
        other = known.get(rollout.variant)
        if other is None or rollout.failure_kind in TRIED_AGAIN:
            return None
        alone = self.resolved.get(_pair(rollout, other))
        return None if alone is None else int(rollout.resolved) - int(alone)


def _pair(rollout: Rollout, variant: str) -> PairKey:
    bug = (rollout.benchmark, rollout.instance_id, rollout.instance_hash)
    return (*bug, rollout.attempt, rollout.main_model, variant)
