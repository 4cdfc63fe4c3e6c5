"""RayNodes of a Ray cluster on this machine, to be killed and added."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

from ray._private.ray_constants import PROCESS_TYPE_RAYLET
from ray.cluster_utils import Cluster

STORE_BYTES = 100_000_000


class RayNodes:
    """A head that does no work, and some nodes that do."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._cluster: Any = None
        self.workers: list[Any] = []

    @contextmanager
    def running(self) -> Iterator[Self]:
        """The cluster, meanwhile."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        head = {"num_cpus": 0, "object_store_memory": STORE_BYTES, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            for _ in range(self._count):
                self.add()
            yield self
        finally:
            self._cluster.shutdown()

    @property
    def address(self) -> str:
        """Of the head."""
        return str(self._cluster.address)

    def processes(self) -> list[int]:
        """The numbers of the workers that do rollouts."""
        return [number for node in self.workers for number in _children(node, "^ray::NodeWorker")]

    def kill_workers(self) -> int:
        """Kill the workers at once, but not their nodes; how many there were."""
        found = self.processes()
        _kill(found)
        return len(found)

    def add(self) -> None:
        """One more node."""
        self.workers.append(self._cluster.add_node(num_cpus=1, object_store_memory=STORE_BYTES))

    def restore(self) -> None:
        """As many nodes again as at first."""
        while len(self.workers) < self._count:
            self.add()

    def kill(self, place: int = 0) -> None:
        """A node is gone at once, with all its processes."""
        node = self.workers.pop(place)
        # Ray's own processes would go on for a moment.
        _kill(_children(node, ""))
        self._cluster.remove_node(node, allow_graceful=False)


def _children(node: Any, pattern: str) -> list[int]:
    """The processes that a node has started, by what they are called."""
    raylets = [str(each.process.pid) for each in node.all_processes[PROCESS_TYPE_RAYLET]]
    search = ["pgrep", "-P", ",".join(raylets), "-f", pattern]
    found = subprocess.run(search, capture_output=True, text=True, check=False)
    return [int(each) for each in found.stdout.split()]


def _kill(processes: Iterable[int]) -> None:
    for number in processes:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
