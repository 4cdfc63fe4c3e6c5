"""Takes slots of a run's shared state, and tells it dollars, while answers to its calls are lost.

To be run with the run's folder, in a process of its own: `RAY_testing_rpc_failure` holds for all of
one. Prints what was spent, and how many slots are free at the end.
"""

from __future__ import annotations

import sys
import threading
from contextlib import closing
from pathlib import Path

from collect.benchmarks.bundled import BundledBenchmark
from collect.config import RuntimeConfig
from collect.models.budget import Budget, read_spent
from collect.rollouts.executor import Setup
from collect.rollouts.ray_cluster.cluster import Workers, connect
from collect.rollouts.ray_cluster.shared_state import SharedLimits

SLOTS, SECONDS = 2, 60.0


def main(folder: Path) -> None:
    """Do it."""
    connect(None)
    setup = Setup(RuntimeConfig(), BundledBenchmark(), {}, folder)
    with closing(Workers(setup, Budget(None, 0.0, folder), threading.Event())) as workers:
        limits = SharedLimits(workers._shared_state, "worker")
        slots = limits.slots("model", SLOTS)
        for _ in range(2 * SLOTS):
            assert slots.acquire(timeout=SECONDS)
            limits.add(1.0)
            slots.release()
        limits.note()
        free = 0
        while slots.acquire(timeout=1.0):
            free += 1
        print(read_spent(folder), free)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
