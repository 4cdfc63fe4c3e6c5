"""The workers of a run: one on each node of a cluster, started, started again, and let go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from collect.build_info import code_version
from collect.cluster.connecting import nodes_with_room
from collect.cluster.nodes import Node, Nodes
from collect.cluster.office import Office
from collect.cluster.worker import NodeWorker, Readiness
from collect.errors import RolloutStopped
from collect.models.budget import Budget
from collect.models.waiting import raise_if_stopped, result_unless
from collect.places import Setup
from collect.telling import tell
from collect.work import Work

Result = TypeVar("Result")
WATCH_SECONDS = 0.5
STOP_SECONDS = 60.0
"""In which the rollouts of a worker end once it was told to stop."""


class Workers:
    """Thread-safe. What `nodes` has is read and changed with `changed` held."""

    def __init__(self, ray: Any, setup: Setup, budget: Budget, stop: threading.Event) -> None:
        self._ray, self._setup, self._stop = ray, ray.put(setup), stop
        self._per_node = setup.machinery.runner.ray.per_node
        here = ray.get_runtime_context().get_node_id()
        # Its calls may be repeated: a connection that breaks must not end a rollout, nor leave the
        # office with a slot that nobody has.
        self._office = self._on(here, Office, max_task_retries=-1).remote(
            setup.folder.resolve(), budget.limit_dollars, budget.spent
        )
        self.nodes = Nodes(self._per_node)
        self.changed = threading.Condition()
        self.hopeful_at = time.monotonic()
        """When there last was a node that did rollouts, or was to do so before long."""
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []
        """Those that look at nodes, and start workers."""

    def start(self, first: Work) -> None:
        """From now on, keep a worker on each node; each tries the first rollout's bug."""
        self._run(self._watch, first)

    def close(self) -> None:
        """Let them go."""
        self._closed.set()
        # Ray would start a cluster of its own for a thread that calls it after its end. The first
        # thread is that which starts the others.
        while self._threads:
            self._threads.pop(0).join(STOP_SECONDS)
        workers = [node.worker for node in self.nodes.all if node.worker is not None]
        closing = [worker.close.remote() for worker in workers]
        self._ray.wait(closing, num_returns=len(closing), timeout=STOP_SECONDS)
        for actor in (*workers, self._office):
            self._ray.kill(actor)

    def lost(self, node: Node, worker: Any) -> None:
        """A rollout's worker is gone."""
        with self.changed:
            node.lost += 1
            if node.worker is not worker:
                return
            node.died()
            name = node.worker_name
        self._let_go(worker, name)

    def wait(self, future: Future[Result]) -> Result:
        """The result. Raises RolloutStopped once the run is stopped, or the place closed."""
        return result_unless(future, self._check_open)

    def _run(self, do: Callable[..., None], *arguments: object) -> None:
        """Do it in a thread of its own."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=do, args=arguments, daemon=True))
        self._threads[-1].start()

    def _check_open(self) -> None:
        raise_if_stopped(self._stop)
        if self._closed.is_set():
            raise RolloutStopped("the run has ended")

    def _watch(self, first: Work) -> None:
        told = ""
        while not self._closed.wait(WATCH_SECONDS) and not self._stop.is_set():
            try:
                self._look(first)
                told = ""
            except Exception as error:
                # Whatever it is: without this thread no worker would ever be started again.
                if str(error) != told:
                    told = str(error)
                    tell(f"the cluster's nodes can't be looked at, and will be again: {told}")
            with self.changed:
                if self.nodes.hopeful:
                    self.hopeful_at = time.monotonic()
                self.changed.notify_all()

    def _look(self, first: Work) -> None:
        """Keep up with which nodes there are, and start a worker on each that has none."""
        alive = nodes_with_room(self._ray)
        with self.changed:
            self.nodes.update(alive)
            for node in self.nodes.to_start():
                node.starting = True
                self._run(self._start, node, first)

    def _start(self, node: Node, first: Work) -> None:
        """Start a worker, which may have to fetch an image first."""
        node.starts += 1
        name, worker = node.worker_name, None
        try:
            started = self._on(node.id, NodeWorker)
            worker = started.remote(self._setup, self._office, name, self._per_node)
            found = self.wait(worker.prepare.remote(code_version(), first).future())
        except RolloutStopped:
            return
        except Exception as error:
            # Whatever it is: the node would seem to be starting for ever.
            if worker is not None:
                self._let_go(worker, name)
            with self.changed:
                node.died()
            tell(f"no worker on {node.host}: {error}")
            return
        if found.refused is not None:
            self._let_go(worker, name)
        with self.changed:
            _note(found, node, worker)
            self.changed.notify_all()

    def _let_go(self, worker: Any, name: str) -> None:
        """Kill a worker, which may only be out of reach and go on spending, and free what requests
        it had."""
        self._ray.kill(worker)
        # An office that has died holds nothing; the next rollout will say that it has.
        with suppress(self._ray.exceptions.RayActorError):
            self._ray.get(self._office.forget.remote(name))

    def _on(self, node_id: str, actor: type, max_task_retries: int = 0) -> Any:
        """The actor, to be started on a node and nowhere else."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        strategy = NodeAffinitySchedulingStrategy(node_id, soft=False)
        return self._ray.remote(actor).options(
            num_cpus=0, scheduling_strategy=strategy, max_task_retries=max_task_retries
        )


def _note(found: Readiness, node: Node, worker: Any) -> None:
    """What a worker found when it got ready, or did not."""
    if found.refused is None:
        node.started(worker, found.images)
    elif found.for_good and not node.ready_once:
        node.refused(found.refused)
        tell(f"no rollouts on {node.host}: {found.refused}")
    else:
        node.unready(found.refused)
        seconds = node.health.rest_seconds
        tell(f"no rollouts on {node.host} for the next {seconds:g} s: {found.refused}")
