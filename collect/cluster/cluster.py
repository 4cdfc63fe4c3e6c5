"""Rollouts on the nodes of a Ray cluster, as the driver sees them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any, TypeVar

from collect.benchmarks.images import required_images
from collect.build_info import code_version
from collect.cluster.connecting import connect, losses, nodes_with_room
from collect.cluster.nodes import Node, Nodes
from collect.cluster.office import Office
from collect.cluster.worker import Answer, NodeWorker
from collect.errors import ConfigError, NodeLost, RolloutStopped
from collect.models.budget import Budget
from collect.models.waiting import POLL_SECONDS, raise_if_stopped, result_unless
from collect.places import Setup
from collect.preflight.checks import Check
from collect.watching.heartbeat import NodeStatus
from collect.watching.log_lines import log_file, open_log
from collect.watching.rollout_log import RolloutLog
from collect.work import Rows, Work

WATCH_SECONDS = 0.5
Result = TypeVar("Result")
STOP_SECONDS = 60.0
"""In which the rollouts of a worker end once it was told to stop."""


class RayCluster:
    """A place of many machines. A rollout whose node is lost is done on another."""

    def __init__(self, setup: Setup, budget: Budget, stop: threading.Event) -> None:
        """Raises ConfigError where there is no cluster at the address."""
        self._config = setup.machinery.runner.ray
        self._setup, self._stop = setup, stop
        self._ray = ray = connect(self._config.address, "runner.ray.address")
        self._setup_ref = ray.put(setup)
        self._office = self._on(ray.get_runtime_context().get_node_id(), Office).remote(
            setup.folder.resolve(), budget.limit_dollars, budget.spent
        )
        self._nodes = Nodes(self._config.per_node)
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None
        self._seen_at = time.monotonic()

    def checks(self, works: Sequence[Work]) -> Sequence[Check]:
        """See `collect.places.Place`. Each node looks at what it needs by itself."""
        return (Check("nodes", partial(self._first_node, works[0])),)

    def do(self, work: Work) -> Rows:
        """See `collect.places.Place`."""
        lost: list[str] = []
        while len(lost) < self._config.tries:
            try:
                node = self._take(work)
            except NodeLost as error:
                return self._setup.failed(work, error)
            worker = node.worker
            try:
                answer = self._answer(worker, work)
            except losses(self._ray):
                lost.append(node.host)
                self._log(work).note("lost", host=node.host)
                self._lost(node, worker)
                continue
            finally:
                self._give(node)
            self._done(node, work)
            return _rows(answer)
        gone = f"{len(lost)} workers died with it, on {', '.join(lost)}"
        return self._setup.failed(work, NodeLost(f"{gone}; look at their memory and Ray's logs"))

    def nodes(self) -> Sequence[NodeStatus]:
        """See `collect.places.Place`."""
        with self._changed:
            return self._nodes.statuses

    def close(self) -> None:
        """Let the workers go. A cluster that was running goes on."""
        self._closed.set()
        if self._watcher is not None:
            self._watcher.join()
        workers = [node.worker for node in self._nodes.all if node.worker is not None]
        closing = [worker.close.remote() for worker in workers]
        self._ray.wait(closing, num_returns=len(closing), timeout=STOP_SECONDS)
        for actor in (*workers, self._office):
            self._ray.kill(actor)
        self._ray.shutdown()

    def _first_node(self, first: Work) -> str:
        """Wait for a node that can do a rollout. Raises ConfigError where none can."""
        self._watcher = threading.Thread(
            target=self._watch, args=(first,), name="ray-nodes", daemon=True
        )
        self._watcher.start()
        try:
            self._give(self._take(first))
        except NodeLost as error:
            raise ConfigError(str(error)) from error
        return "; ".join(f"{node.host}: {node.state}" for node in self.nodes())

    def _watch(self, first: Work) -> None:
        """Keep up with which nodes there are, and start a worker on each that has none."""
        while not self._closed.wait(WATCH_SECONDS) and not self._stop.is_set():
            alive = nodes_with_room(self._ray)
            with self._changed:
                self._nodes.update(alive)
                for node in self._nodes.to_start():
                    node.starting = True
                    threading.Thread(target=self._start, args=(node, first), daemon=True).start()
                if self._nodes.hopeful:
                    self._seen_at = time.monotonic()
                self._changed.notify_all()

    def _start(self, node: Node, first: Work) -> None:
        """Start a worker, which may have to fetch an image first."""
        node.starts += 1
        name = f"{node.id}-{node.starts}"
        worker = self._on(node.id, NodeWorker).remote(
            self._setup_ref, self._office, name, self._config.per_node
        )
        try:
            refusal = self._wait(worker.prepare.remote(code_version(), first).future())
            images = self._wait(worker.images.remote().future())
        except self._ray.exceptions.RayError as error:
            with self._changed:
                node.died()
            print(f"stepinto: no worker on {node.host}: {error}", file=sys.stderr)
            return
        except RolloutStopped:
            return
        with self._changed:
            node.started(worker, images) if refusal is None else node.refused(refusal)
            self._changed.notify_all()
        if refusal is not None:
            print(f"stepinto: no rollouts on {node.host}: {refusal}", file=sys.stderr)

    def _take(self, work: Work) -> Node:
        """Wait for room on a node. Raises RolloutStopped, NodeLost, ConfigError."""
        images = required_images([work.spec.instance], self._setup.machinery.sandbox)
        with self._changed:
            while True:
                raise_if_stopped(self._stop)
                node = self._nodes.best(images)
                if node is not None:
                    node.running += 1
                    return node
                self._check_nodes()
                self._changed.wait(POLL_SECONDS)

    def _check_nodes(self) -> None:
        refusals = self._nodes.refusals()
        if refusals:
            raise ConfigError(f"no node of the cluster can do rollouts: {'; '.join(refusals)}")
        timeout = self._config.node_timeout
        if time.monotonic() - self._seen_at > timeout:
            raise NodeLost(
                f"the Ray cluster has had no node that can do rollouts for {timeout:g} s "
                "(runner.ray.node_timeout); `ray status` shows its nodes, which must offer CPUs"
            )

    def _answer(self, worker: Any, work: Work) -> Answer:
        """What came of it on a node. A stop is told to the worker, which then ends soon."""
        future: Future[Answer] = worker.do.remote(work).future()
        try:
            return self._wait(future)
        except RolloutStopped:
            worker.stop.remote()
        wait([future], STOP_SECONDS)
        if future.done():
            return future.result()
        raise RolloutStopped("the run is being stopped")

    def _wait(self, future: Future[Result]) -> Result:
        """The result. Raises RolloutStopped once the run is stopped, or the place closed."""
        return result_unless(future, self._check_open)

    def _check_open(self) -> None:
        raise_if_stopped(self._stop)
        if self._closed.is_set():
            raise RolloutStopped("the run has ended")

    def _log(self, work: Work) -> RolloutLog:
        text = log_file(self._setup.folder, work.spec.id)
        return open_log(self._setup.machinery.runner, text)

    def _lost(self, node: Node, worker: Any) -> None:
        with self._changed:
            node.lost += 1
            if node.worker is not worker:
                return
            node.died()
            name = f"{node.id}-{node.starts}"
        # It may only be out of reach, and would go on spending.
        self._ray.kill(worker)
        self._ray.get(self._office.forget.remote(name))

    def _give(self, node: Node) -> None:
        with self._changed:
            node.running -= 1
            self._changed.notify_all()

    def _done(self, node: Node, work: Work) -> None:
        images = required_images([work.spec.instance], self._setup.machinery.sandbox)
        with self._changed:
            node.done += 1
            node.deaths = 0
            node.images |= frozenset(images)

    def _on(self, node_id: str, actor: type) -> Any:
        """The actor, to be started on a node and nowhere else."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        strategy = NodeAffinitySchedulingStrategy(node_id, soft=False)
        return self._ray.remote(actor).options(num_cpus=0, scheduling_strategy=strategy)


def _rows(answer: Answer) -> Rows:
    if answer.refused is not None:
        raise ConfigError(answer.refused)
    if answer.rows is None:
        raise RolloutStopped("the run is being stopped")
    return answer.rows
