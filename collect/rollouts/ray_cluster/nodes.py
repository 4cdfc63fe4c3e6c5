"""The nodes of a cluster: which are there, which has room, and when a dead worker starts again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from collect.errors import OutOfDisk
from collect.rollouts.faults import fault_named
from collect.rollouts.heartbeat import NodeStatus
from collect.store.records import Rollout
from sandbox.errors import (
    DiskExceeded,
    ImageMissing,
    OutOfMemory,
    SandboxDead,
    SandboxUnavailable,
)

# When a node rests because rollouts fail there, and when it is tried again.


IN_A_ROW = 3
"""A node rests after this many different bugs in a row failed by its fault. One bug alone proves
little: its image may not exist, or its rollouts may kill their sandboxes."""
FIRST_REST, LONGEST_REST = 60.0, 900.0
"""Seconds; each rest is twice as long as the last."""
OF_A_NODE = (OutOfDisk, SandboxUnavailable, ImageMissing, SandboxDead)
OF_A_ROLLOUT = (OutOfMemory, DiskExceeded)
"""Failures of sandboxes that would happen on any node."""
SHOWN = 300
"""Maximum length of a reason."""


@dataclass
class Health:
    """Health of one node. Not thread-safe. Times are in seconds of one clock."""

    reason: str | None = None
    """Why it rests or last rested; None once a rollout has succeeded since."""
    until: float = 0.0
    """End of the last rest."""
    rest_seconds: float = 0.0
    """Length of the last rest; 0 before the first."""
    bugs: set[str] = field(default_factory=set)
    """Ids of the bugs that have failed by the node's fault since the last success."""

    def ended(self, fault: str | None, bug: str, began: float, now: float) -> bool:
        """A bug's rollout that started at `began` has ended; `fault` is the node's fault, if any.
        Returns whether the node now rests because of it."""
        if began < self.until:
            # It began before the rest, so it says nothing about the time after.
            return False
        if fault is None:
            self.reason, self.rest_seconds = None, 0.0
            self.bugs.clear()
            return False
        if bug in self.bugs:
            # The bug itself may be the cause, so it proves nothing new, also after a rest.
            return False
        self.bugs.add(bug)
        if len(self.bugs) < IN_A_ROW and self.reason is None:
            return False
        self.rest(fault, now)
        return True

    def rest(self, reason: str, now: float) -> None:
        """Do nothing for a while."""
        self.rest_seconds = min(2 * self.rest_seconds, LONGEST_REST) or FIRST_REST
        self.reason, self.until = reason, now + self.rest_seconds

    def room(self, under_way: Collection[float], most: int, now: float) -> bool:
        """Whether the node can take a rollout beside those `under_way` (start times), of `most` at
        once. After a rest it takes one until a rollout has ended without its fault."""
        if now < self.until or len(under_way) >= most:
            return False
        return self.reason is None or all(began < self.until for began in under_way)


def fault_of(row: Rollout) -> str | None:
    """The node's fault that may have ended a rollout, or None."""
    fault = fault_named(row.failure_type)
    if fault is None or not issubclass(fault.error, OF_A_NODE):
        return None
    if issubclass(fault.error, OF_A_ROLLOUT):
        return None
    message, _, _ = (row.failure_message or "").partition("\n")
    return f"{row.failure_type}: {message[:SHOWN]}"


BACK_OFF_SECONDS = 1.0
"""Delay after a worker's first death; doubles with each further one."""
MAX_BACK_OFF_SECONDS = 60.0
HOPELESS_DEATHS = 5
"""Deaths in a row, before any rollout was done, after which a node is hopeless."""


@dataclass
class Node:
    """One machine, and its worker process."""

    id: str
    host: str
    worker: Any = None
    """Handle of the actor; None while no worker is ready."""
    starting: bool = False
    ready_once: bool = False
    """Whether a worker has ever been ready here."""
    under_way: list[float] = field(default_factory=list)
    """Start times of the current rollouts, on the monotonic clock."""
    done: int = 0
    lost: int = 0
    """Rollouts in progress when their worker died."""
    deaths: int = 0
    """Deaths of workers since one has done a rollout."""
    starts: int = 0
    start_at: float = 0.0
    """When the next worker may start, on the monotonic clock."""
    refusal: str | None = None
    """Why no rollout can ever be done here."""
    health: Health = field(default_factory=Health)
    present: frozenset[str] = frozenset()
    """Images on the node when its worker last reported."""
    needed: Counter[str] = field(default_factory=Counter)
    """Images that the current rollouts need, which are there or are being fetched."""

    @property
    def worker_name(self) -> str:
        """The last worker's name in the shared state."""
        return f"{self.id}-{self.starts}"

    def started(self, worker: Any, images: frozenset[str]) -> None:
        """A worker is ready, with these images. It has run a test, so the node works."""
        self.starting, self.worker, self.present = False, worker, images
        self.ready_once, self.health = True, Health()

    def refused(self, reason: str) -> None:
        """The worker can't do rollouts, and another one could not either."""
        self.starting, self.refusal = False, reason

    def unready(self, reason: str) -> None:
        """The worker could not get ready, for a reason that may pass."""
        now = time.monotonic()
        self.starting = False
        self.health.rest(reason, now)
        self.start_at = self.health.until

    def died(self) -> None:
        """The worker is gone."""
        self.starting, self.worker, self.present = False, None, frozenset()
        # The exponent is limited: after a day of deaths the power would overflow.
        back_off = BACK_OFF_SECONDS * 2 ** min(self.deaths, 10)
        self.deaths += 1
        self.start_at = time.monotonic() + min(back_off, MAX_BACK_OFF_SECONDS)

    def begin(self, images: Collection[str]) -> float:
        """Assign a rollout that needs these images; returns its start time."""
        began = time.monotonic()
        self.under_way.append(began)
        self.needed.update(images)
        return began

    def end(self, images: Collection[str], began: float) -> None:
        """A rollout has ended."""
        self.under_way.remove(began)
        self.needed -= Counter(images)

    def room(self, most: int) -> bool:
        """Whether it can take one more rollout, of `most` at once."""
        room = self.health.room(self.under_way, most, time.monotonic())
        return self.worker is not None and room

    @property
    def running(self) -> int:
        """Number of current rollouts."""
        return len(self.under_way)

    @property
    def ailment(self) -> str | None:
        """Why it has no worker, if that may pass."""
        return self.health.reason if self.worker is None else None

    @property
    def resting(self) -> bool:
        """Whether it gets no rollouts for a while."""
        return time.monotonic() < self.health.until

    @property
    def hopeful(self) -> bool:
        """Whether it does rollouts, or may soon."""
        if self.worker is not None:
            return True
        return not (self.refusal or self.ailment or self.deaths >= HOPELESS_DEATHS)

    @property
    def status(self) -> NodeStatus:
        """Its status for readers outside."""
        state = "ready" if self.worker is not None else self.refusal or "starting"
        if self.resting:
            state = f"resting: {self.health.reason}"
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
        """The nodes that are alive."""
        return self._nodes.values()

    @property
    def statuses(self) -> tuple[NodeStatus, ...]:
        """The statuses of all nodes, including those that are gone."""
        gone = (each.status.model_copy(update={"state": "gone"}) for each in self._gone)
        return (*(each.status for each in self.all), *gone)

    def update(self, alive: Mapping[str, str]) -> None:
        """Update which nodes are alive: hosts by node id."""
        for node_id in self._nodes.keys() - alive.keys():
            self._gone.append(self._nodes.pop(node_id))
        for node_id, host in alive.items():
            self._nodes.setdefault(node_id, Node(node_id, host))

    def to_start(self) -> list[Node]:
        """The nodes whose worker should start now."""
        now = time.monotonic()
        return [
            node
            for node in self.all
            if node.worker is None
            and not node.starting
            and node.refusal is None
            and node.start_at <= now
        ]

    def best(self, images: Iterable[str], avoided: Collection[str] = ()) -> Node | None:
        """The node for a rollout that needs these images; None if all are busy.

        Of the nodes that have the images, or soon will, the one with most room, unless it already
        does half of `per_node` more than another: then that one gets the images too. Never a node
        in `avoided`.
        """
        free = [n for n in self.all if n.id not in avoided and n.room(self._per_node)]
        least = min((node.running for node in free), default=0)
        lead, needed = (self._per_node + 1) // 2, frozenset(images)

        def rank(node: Node) -> tuple[bool, int]:
            has_them = needed <= node.present | node.needed.keys()
            return not (has_them and node.running < least + lead), node.running

        return min(free, key=rank, default=None)

    def others(self, avoided: Collection[str]) -> bool:
        """Whether another node, with or without room, does rollouts now. One that is only starting
        doesn't count: it may take hours."""
        ready = (node for node in self.all if node.worker is not None and not node.resting)
        return any(node.id not in avoided for node in ready)

    @property
    def hopeful(self) -> bool:
        """Whether rollouts are done, or may be soon."""
        return any(node.hopeful for node in self.all)

    def refusals(self, for_good: bool) -> list[str]:
        """Why no node can do rollouts, for good or at present; empty if one can, or has not
        reported yet."""
        reasons = [(n.host, n.refusal or (None if for_good else n.ailment)) for n in self.all]
        told = [f"{host}: {reason}" for host, reason in reasons if reason is not None]
        return told if len(told) == len(self.all) else []
