"""The nodes of a cluster: which are there, which has room, and when a dead worker starts again."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from collect.watching.heartbeat import NodeStatus

BACK_OFF_SECONDS = 1.0
"""After the first death of a worker; twice as long after each that follows."""
MAX_BACK_OFF_SECONDS = 60.0
HOPELESS_DEATHS = 5
"""Of workers in a row, before any has done a rollout."""


@dataclass
class Node:
    """One machine, and the process there that does rollouts."""

    id: str
    host: str
    worker: Any = None
    """The handle of the actor; None while there is none that is ready."""
    starting: bool = False
    running: int = 0
    done: int = 0
    lost: int = 0
    """Rollouts that were under way when their worker died."""
    deaths: int = 0
    """Of workers, since one of them has done a rollout."""
    starts: int = 0
    start_at: float = 0.0
    """When the next worker may start, on the monotonic clock."""
    refusal: str | None = None
    """Why no rollout can be done there."""
    images: frozenset[str] = frozenset()
    """Those that were there when the worker started, and those of the bugs it was given since."""

    def started(self, worker: Any, images: frozenset[str]) -> None:
        """A worker is ready, where these images are."""
        self.starting, self.worker, self.images = False, worker, images

    def refused(self, reason: str) -> None:
        """Its worker can do no rollouts."""
        self.starting, self.refusal = False, reason

    def died(self) -> None:
        """The worker is gone."""
        self.starting, self.worker, self.images = False, None, frozenset()
        back_off = min(BACK_OFF_SECONDS * 2**self.deaths, MAX_BACK_OFF_SECONDS)
        self.deaths += 1
        self.start_at = time.monotonic() + back_off

    @property
    def status(self) -> NodeStatus:
        """For those who look from outside."""
        state = "ready" if self.worker is not None else self.refusal or "starting"
        return NodeStatus(
            host=self.host, state=state, running=self.running, done=self.done, lost=self.lost
        )


class Nodes:
    """All nodes that are alive. Not thread-safe."""

    def __init__(self, per_node: int) -> None:
        self._per_node = per_node
        self._nodes: dict[str, Node] = {}
        self._gone: list[Node] = []

    @property
    def all(self) -> Collection[Node]:
        """Those alive."""
        return self._nodes.values()

    @property
    def statuses(self) -> tuple[NodeStatus, ...]:
        """Of all, and of those that are gone."""
        gone = (each.status.model_copy(update={"state": "gone"}) for each in self._gone)
        return (*(each.status for each in self.all), *gone)

    def update(self, alive: Mapping[str, str]) -> None:
        """Take in which are alive: hosts by node id."""
        for node_id in self._nodes.keys() - alive.keys():
            self._gone.append(self._nodes.pop(node_id))
        for node_id, host in alive.items():
            self._nodes.setdefault(node_id, Node(node_id, host))

    def to_start(self) -> list[Node]:
        """Those whose worker is to be started now."""
        now = time.monotonic()
        return [
            node
            for node in self.all
            if node.worker is None
            and not node.starting
            and node.refusal is None
            and node.start_at <= now
        ]

    def best(self, images: Iterable[str]) -> Node | None:
        """The one to do a rollout that needs these images: it has them, if it can be, and has most
        room. None where all are at work."""
        free = [n for n in self.all if n.worker is not None and n.running < self._per_node]
        needed = frozenset(images)
        return min(free, key=lambda n: (not needed <= n.images, n.running), default=None)

    @property
    def hopeful(self) -> bool:
        """Whether rollouts are done, or may be before long."""
        return any(
            node.worker is not None or (node.refusal is None and node.deaths < HOPELESS_DEATHS)
            for node in self.all
        )

    def refusals(self) -> list[str]:
        """Why none of the nodes can do rollouts; empty where one can, or may yet."""
        refused = [f"{node.host}: {node.refusal}" for node in self.all if node.refusal is not None]
        return refused if len(refused) == len(self.all) else []
