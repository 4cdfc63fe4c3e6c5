"""When enough rollouts of a run have ended to say what the whole of it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import islice

from collect.cost.estimate import LEAST, Cost, Estimate, estimate
from collect.errors import TRIED_AGAIN
from collect.records import Rollout
from collect.rollout import RolloutSpec


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
