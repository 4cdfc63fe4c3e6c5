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

# When a node rests because of what fails there, and when it is tried again.


IN_A_ROW = 3
"""Bugs whose rollouts fail by a node's fault before it rests. One bug alone says little: its image
may exist nowhere, or its rollouts kill their sandboxes."""
FIRST_REST, LONGEST_REST = 60.0, 900.0
"""Seconds; each rest is twice as long as the one before it."""
OF_A_NODE = (OutOfDisk, SandboxUnavailable, ImageMissing, SandboxDead)
OF_A_ROLLOUT = (OutOfMemory, DiskExceeded)
"""Those sandboxes that die on any node."""
SHOWN = 300
"""Characters of a reason."""


@dataclass
class Health:
    """Of one node. Not thread-safe. Times are in seconds, all of one clock."""

    reason: str | None = None
    """Why it rests, or did last; None once a rollout has not failed by its fault since."""
    until: float = 0.0
    """When the last rest ends, or has ended."""
    rest_seconds: float = 0.0
    """How long that is; 0 where there was none."""
    bugs: set[str] = field(default_factory=set)
    """The ids of those whose rollouts have failed so, since one has not."""

    def ended(self, fault: str | None, bug: str, began: float, now: float) -> bool:
        """A bug's rollout that began then has ended, by a fault of the node's or not; whether the
        node rests because of that."""
        if began < self.until:
            # It began before the rest, and says nothing about what came after it.
            return False
        if fault is None:
            self.reason, self.rest_seconds = None, 0.0
            self.bugs.clear()
            return False
        if bug in self.bugs:
            # It may be the bug's doing, and says nothing new: not after a rest either.
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
        """Whether the node can be given a rollout beside those that began then, of `most` at once:
        after a rest one, until that has not failed by the node's fault."""
        if now < self.until or len(under_way) >= most:
            return False
        return self.reason is None or all(began < self.until for began in under_way)


def fault_of(row: Rollout) -> str | None:
    """Which fault of its node's may have ended a rollout; None where there is none."""
    fault = fault_named(row.failure_type)
    if fault is None or not issubclass(fault.error, OF_A_NODE):
        return None
    if issubclass(fault.error, OF_A_ROLLOUT):
        return None
    message, _, _ = (row.failure_message or "").partition("\n")
    return f"{row.failure_type}: {message[:SHOWN]}"


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
    ready_once: bool = False
    """Whether a worker has ever been ready there."""
    under_way: list[float] = field(default_factory=list)
    """When the rollouts began that it does now, on the monotonic clock."""
    done: int = 0
    lost: int = 0
    """Rollouts that were under way when their worker died."""
    deaths: int = 0
    """Of workers, since one of them has done a rollout."""
    starts: int = 0
    start_at: float = 0.0
    """When the next worker may start, on the monotonic clock."""
    refusal: str | None = None
    """Why no rollout can ever be done there."""
    health: Health = field(default_factory=Health)
    present: frozenset[str] = frozenset()
    """The images that were there when the worker last said so."""
    needed: Counter[str] = field(default_factory=Counter)
    """Those of the rollouts under way, which are there or will be."""

    @property
    def worker_name(self) -> str:
        """The last worker's, for the shared state."""
        return f"{self.id}-{self.starts}"

    def started(self, worker: Any, images: frozenset[str]) -> None:
        """A worker is ready, where these images are. It has run a test, so the node does well."""
        self.starting, self.worker, self.present = False, worker, images
        self.ready_once, self.health = True, Health()

    def refused(self, reason: str) -> None:
        """Its worker can do no rollouts, and no other could."""
        self.starting, self.refusal = False, reason

    def unready(self, reason: str) -> None:
        """Its worker could not get ready, for a reason that may pass."""
        now = time.monotonic()
        self.starting = False
        self.health.rest(reason, now)
        self.start_at = self.health.until

    def died(self) -> None:
        """The worker is gone."""
        self.starting, self.worker, self.present = False, None, frozenset()
        # The exponent has a bound of its own: after a day of deaths no float could hold the power.
        back_off = BACK_OFF_SECONDS * 2 ** min(self.deaths, 10)
        self.deaths += 1
        self.start_at = time.monotonic() + min(back_off, MAX_BACK_OFF_SECONDS)

    def begin(self, images: Collection[str]) -> float:
        """A rollout that needs these images is given to it; when that is."""
        began = time.monotonic()
        self.under_way.append(began)
        self.needed.update(images)
        return began

    def end(self, images: Collection[str], began: float) -> None:
        """It is no longer under way there."""
        self.under_way.remove(began)
        self.needed -= Counter(images)

    def room(self, most: int) -> bool:
        """Whether it can be given one rollout more, of `most` at once."""
        room = self.health.room(self.under_way, most, time.monotonic())
        return self.worker is not None and room

    @property
    def running(self) -> int:
        """How many rollouts it does now."""
        return len(self.under_way)

    @property
    def ailment(self) -> str | None:
        """Why it has no worker, where that may pass."""
        return self.health.reason if self.worker is None else None

    @property
    def resting(self) -> bool:
        """Whether it is given nothing for a while."""
        return time.monotonic() < self.health.until

    @property
    def hopeful(self) -> bool:
        """Whether it does rollouts, or may before long."""
        if self.worker is not None:
            return True
        return not (self.refusal or self.ailment or self.deaths >= HOPELESS_DEATHS)

    @property
    def status(self) -> NodeStatus:
        """For those who look from outside."""
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

    def best(self, images: Iterable[str], avoided: Collection[str] = ()) -> Node | None:
        """The one to do a rollout that needs these images. None where all are at work.

        Of those that have them, or soon will, the one with most room, unless it already does half
        of `per_node` more than another: then that one gets the images too. None of those whose ids
        are `avoided`.
        """
        free = [n for n in self.all if n.id not in avoided and n.room(self._per_node)]
        least = min((node.running for node in free), default=0)
        lead, needed = (self._per_node + 1) // 2, frozenset(images)

        def rank(node: Node) -> tuple[bool, int]:
            has_them = needed <= node.present | node.needed.keys()
            return not (has_them and node.running < least + lead), node.running

        return min(free, key=rank, default=None)

    def others(self, avoided: Collection[str]) -> bool:
        """Whether there is a node but those, with or without room, that does rollouts now: one that
        is only starting may be at it for hours."""
        ready = (node for node in self.all if node.worker is not None and not node.resting)
        return any(node.id not in avoided for node in ready)

    @property
    def hopeful(self) -> bool:
        """Whether rollouts are done, or may be before long."""
        return any(node.hopeful for node in self.all)

    def refusals(self, for_good: bool) -> list[str]:
        """Why none of the nodes can do rollouts, for good or at all; empty where one can, or is
        still to be heard of."""
        reasons = [(n.host, n.refusal or (None if for_good else n.ailment)) for n in self.all]
        told = [f"{host}: {reason}" for host, reason in reasons if reason is not None]
        return told if len(told) == len(self.all) else []
