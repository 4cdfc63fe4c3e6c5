"""What the rows of a run come to, in numbers for a tracker."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from collect.errors import TRIED_AGAIN
from collect.records import Rollout
from collect.watching.heartbeat import NodeStatus
from collect.watching.progress import Progress

Numbers = dict[str, float]
"""By the name of their curve."""


@dataclass(frozen=True)
class _Counted:
    resolved: bool
    judged: bool
    failure_type: str | None
    tokens: int
    dollars: float

    @classmethod
    def of(cls, row: Rollout) -> Self:
        judged = row.failure_kind not in TRIED_AGAIN
        return cls(row.resolved, judged, row.failure_type, row.tokens, row.dollars)


class Tally:
    """The rows of all starts. One that was done again counts once. Thread-safe."""

    def __init__(self, rows: Iterable[Rollout] = ()) -> None:
        self._lock = threading.Lock()
        self._counted: dict[str, _Counted] = {}
        self._failures: set[str] = set()
        for row in rows:
            self.add(row)

    def add(self, row: Rollout) -> None:
        """Count one more, or another one in its place."""
        with self._lock:
            self._counted[row.rollout_id] = _Counted.of(row)
            if row.failure_type is not None:
                self._failures.add(row.failure_type)

    def numbers(self) -> Numbers:
        """All in all. A type of failure that has gone away is a zero, else its curve would stay."""
        with self._lock:
            counted = list(self._counted.values())
            failures = sorted(self._failures)
        judged = sum(each.judged for each in counted)
        failed = Counter(each.failure_type for each in counted)
        numbers: Numbers = {f"failed/{name}": failed[name] for name in failures}
        numbers["rollouts/resolved"] = sum(each.resolved for each in counted)
        if judged:
            numbers["rollouts/resolved_share"] = numbers["rollouts/resolved"] / judged
        numbers["tokens"] = sum(each.tokens for each in counted)
        numbers["dollars"] = sum(each.dollars for each in counted)
        return numbers


def of_progress(progress: Progress) -> Numbers:
    """How far the run has come."""
    return {
        "rollouts/done": progress.done,
        "rollouts/total": progress.total,
        "rollouts/running": len(progress.running()),
        "rollouts/per_hour": progress.per_hour,
    }


def of_nodes(nodes: Sequence[NodeStatus]) -> Numbers:
    """The machines of a cluster; nothing where there is none."""
    if not nodes:
        return {}
    return {
        "nodes/ready": sum(node.state == "ready" for node in nodes),
        "nodes/lost_rollouts": sum(node.lost for node in nodes),
    }
