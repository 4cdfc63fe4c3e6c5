"""The nodes of a cluster: which are there, which has room, and which are excluded for a while."""

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

BUGS_IN_A_ROW = 3
"""A node is excluded after this many different bugs in a row failed by its fault. One bug alone
proves little: its image may not exist, or its rollouts may kill their sandboxes."""
EXCLUDED_SECONDS = 120.0
LONGEST_BACK_OFF = 60.0
"""Seconds. The first death of a worker costs one second, each further one twice as many."""
HOPELESS_DEATHS = 5
"""Deaths in a row, before any rollout was done, after which a node is hopeless."""
OF_A_NODE = (OutOfDisk, SandboxUnavailable, ImageMissing, SandboxDead)
OF_A_ROLLOUT = (OutOfMemory, DiskExceeded)
"""Failures of sandboxes that would happen on any node."""
SHOWN = 300
"""Maximum length of a reason."""


def fault_of(row: Rollout) -> str | None:
    """The node's fault that may have ended a rollout, or None."""
    fault = fault_named(row.failure_type)
    if fault is None or not issubclass(fault.error, OF_A_NODE):
        return None
    if issubclass(fault.error, OF_A_ROLLOUT):
        return None
    message, _, _ = (row.failure_message or "").partition("\n")
    return f"{row.failure_type}: {message[:SHOWN]}"


@dataclass
class Node:
    """One machine, and its worker process. Times are on the monotonic clock."""

    id: str
    host: str
    worker: Any = None
    """Handle of the actor; None while no worker is ready."""
    starting: bool = False
    ready_once: bool = False
    """Whether a worker has ever been ready here."""
    running: int = 0
    """Number of current rollouts."""
    done: int = 0
    lost: int = 0
    """Rollouts in progress when their worker died."""
    deaths: int = 0
    """Deaths of workers since one has done a rollout."""
    starts: int = 0
    start_at: float = 0.0
    """When the next worker may start."""
    refusal: str | None = None
    """Why no rollout can ever be done here."""
    excluded_until: float = 0.0
    reason: str | None = None
    """Why it is or was excluded; None once a rollout has succeeded since."""
    failed_bugs: set[str] = field(default_factory=set)
    """Ids of the bugs that have failed by the node's fault since the last success."""
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
        self.ready_once, self.reason, self.excluded_until = True, None, 0.0
        self.failed_bugs.clear()

    def unready(self, reason: str, *, for_good: bool) -> str:
        """The worker could not get ready; returns what to tell the user.

        A node that was ready before, or whose reason may pass, is only excluded.
        """
        self.starting = False
        if for_good and not self.ready_once:
            self.refusal = reason
            return f"no rollouts on {self.host}: {reason}"
        told = self.exclude(reason)
        self.start_at = self.excluded_until
        return told

    def died(self) -> None:
        """The worker is gone."""
        self.starting, self.worker, self.present = False, None, frozenset()
        self.start_at = time.monotonic() + min(2.0 ** min(self.deaths, 10), LONGEST_BACK_OFF)
        self.deaths += 1

    def begin(self, images: Collection[str]) -> None:
        """Assign a rollout that needs these images."""
        self.running += 1
        self.needed.update(images)

    def end(self, images: Collection[str]) -> None:
        """A rollout has ended or was lost."""
        self.running -= 1
        self.needed -= Counter(images)

    def report(self, fault: str | None, bug: str) -> str | None:
        """A rollout of a bug has ended; `fault` is the node's fault in it, if any. Returns what to
        tell the user if the node is now excluded."""
        if fault is None:
            self.done, self.deaths, self.reason = self.done + 1, 0, None
            self.failed_bugs.clear()
            return None
        self.failed_bugs.add(bug)
        if len(self.failed_bugs) < BUGS_IN_A_ROW:
            return None
        self.failed_bugs.clear()
        return self.exclude(fault)

    def exclude(self, reason: str) -> str:
        """Give it no rollouts for a while; returns what to tell the user."""
        self.reason, self.excluded_until = reason, time.monotonic() + EXCLUDED_SECONDS
        return f"no rollouts on {self.host} for the next {EXCLUDED_SECONDS:g} s: {reason}"

    @property
    def excluded(self) -> bool:
        """Whether it gets no rollouts for a while."""
        return time.monotonic() < self.excluded_until

    @property
    def can_work(self) -> bool:
        """Whether it does rollouts now, with or without room for more."""
        return self.worker is not None and not self.excluded

    @property
    def ailment(self) -> str | None:
        """Why it has no worker, if that may pass."""
        return self.reason if self.worker is None else None

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
        if self.excluded:
            state = f"excluded: {self.reason}"
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
        free = [
            node
            for node in self.all
            if node.id not in avoided and node.can_work and node.running < self._per_node
        ]
        least = min((node.running for node in free), default=0)
        lead, needed = (self._per_node + 1) // 2, frozenset(images)

        def rank(node: Node) -> tuple[bool, int]:
            has_them = needed <= node.present | node.needed.keys()
            return not (has_them and node.running < least + lead), node.running

        return min(free, key=rank, default=None)

    def others(self, avoided: Collection[str]) -> bool:
        """Whether another node, with or without room, does rollouts now. One that is only starting
        doesn't count: it may take hours."""
        return any(node.can_work and node.id not in avoided for node in self.all)

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
