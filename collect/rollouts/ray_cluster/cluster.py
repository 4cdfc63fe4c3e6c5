"""Rollouts on the nodes of a Ray cluster, seen from the driver."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from collect.benchmarks.images import required_images
from collect.errors import ConfigError, NodeLost, RolloutStopped
from collect.models.budget import Budget
from collect.models.waiting import POLL_SECONDS, raise_if_stopped, result_unless
from collect.preflight import Check
from collect.quantities import counted
from collect.rollout_log import RolloutLog, log_file
from collect.rollouts.executor import Rows, Setup, Work
from collect.rollouts.heartbeat import NodeStatus
from collect.rollouts.journal import forget_replies
from collect.rollouts.ray_cluster.connecting import connect, losses, nodes_with_room
from collect.rollouts.ray_cluster.nodes import Node, Nodes, fault_of
from collect.rollouts.ray_cluster.shared_state import SharedState
from collect.rollouts.ray_cluster.worker import Answer, NodeWorker
from collect.store.build_info import code_version

logger = logging.getLogger(__name__)

# The workers of a run: one on each node of a cluster, started, restarted, and ended.


Result = TypeVar("Result")
WATCH_SECONDS = 0.5
STOP_SECONDS = 60.0
"""Seconds for a worker's rollouts to end after a stop."""


class Workers:
    """Thread-safe: `nodes` is read and changed only with `changed` held."""

    def __init__(self, ray: Any, setup: Setup, budget: Budget, stop: threading.Event) -> None:
        self._ray, self._setup, self._stop = ray, ray.put(setup), stop
        self._per_node = setup.runtime.runner.ray.per_node
        here = ray.get_runtime_context().get_node_id()
        # Its calls may be repeated: a broken connection must not end a rollout, nor leave a slot
        # taken that nobody holds.
        self._shared_state = self._on(here, SharedState, max_task_retries=-1).remote(
            setup.folder.resolve(), budget.limit_dollars, budget.spent
        )
        self.nodes = Nodes(self._per_node)
        self.changed = threading.Condition()
        self.hopeful_at = time.monotonic()
        """When a node last did rollouts, or was about to."""
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []
        """The threads that watch nodes and start workers."""

    def start(self, first: Work) -> None:
        """From now on keep a worker on each node; each tries the first rollout's bug."""
        self._run(self._watch, first)

    def close(self) -> None:
        """End all workers."""
        self._closed.set()
        # Ray would start a cluster of its own for a thread that calls it after its end. The first
        # thread is the one that starts the others.
        while self._threads:
            self._threads.pop(0).join(STOP_SECONDS)
        workers = [node.worker for node in self.nodes.all if node.worker is not None]
        closing = [worker.close.remote() for worker in workers]
        self._ray.wait(closing, num_returns=len(closing), timeout=STOP_SECONDS)
        for actor in (*workers, self._shared_state):
            self._ray.kill(actor)

    def lost(self, node: Node, worker: Any) -> None:
        """The worker of a rollout is gone."""
        with self.changed:
            node.lost += 1
            if node.worker is not worker:
                return
            node.died()
            name = node.worker_name
        self._let_go(worker, name)

    def wait(self, future: Future[Result]) -> Result:
        """The result. Raises RolloutStopped once the run is stopped, or the executor closed."""
        return result_unless(future, self._check_open)

    def _run(self, do: Callable[..., None], *arguments: object) -> None:
        """Run it in a thread of its own."""
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
                # Any error: without this thread no worker would ever be restarted.
                if str(error) != told:
                    told = str(error)
                    logger.warning(
                        f"the cluster's nodes can't be looked at, and will be again: {told}"
                    )
            with self.changed:
                if self.nodes.hopeful:
                    self.hopeful_at = time.monotonic()
                self.changed.notify_all()

    def _look(self, first: Work) -> None:
        """Track the nodes, and start a worker on each that has none."""
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
            worker = started.remote(self._setup, self._shared_state, name, self._per_node)
            found = self.wait(worker.prepare.remote(code_version(), first).future())
        except RolloutStopped:
            return
        except Exception as error:
            # Any error: otherwise the node would seem to be starting forever.
            if worker is not None:
                self._let_go(worker, name)
            with self.changed:
                node.died()
            logger.warning(f"no worker on {node.host}: {error}")
            return
        if found.refused is not None:
            self._let_go(worker, name)
        with self.changed:
            if found.refused is None:
                node.started(worker, found.images)
            else:
                logger.warning(node.unready(found.refused, for_good=found.for_good))
            self.changed.notify_all()

    def _let_go(self, worker: Any, name: str) -> None:
        """Kill a worker, which may only be out of reach and go on spending, and free its requests'
        slots."""
        self._ray.kill(worker)
        # If the shared state has died, there is nothing to free; the next rollout reports it.
        with suppress(self._ray.exceptions.RayActorError):
            self._ray.get(self._shared_state.forget.remote(name))

    def _on(self, node_id: str, actor: type, max_task_retries: int = 0) -> Any:
        """An actor class bound to a node."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        strategy = NodeAffinitySchedulingStrategy(node_id, soft=False)
        return self._ray.remote(actor).options(
            num_cpus=0, scheduling_strategy=strategy, max_task_retries=max_task_retries
        )


@dataclass(frozen=True)
class Turn:
    """A rollout's assignment to a node."""

    node: Node
    worker: Any
    """Handle of the node's actor at that time."""
    images: Sequence[str]
    """Images that the rollout needs."""


class RayCluster:
    """Many machines. A rollout whose node is lost, or at fault, is done on another."""

    def __init__(self, setup: Setup, budget: Budget, stop: threading.Event) -> None:
        """Raises ConfigError if there is no cluster at the address."""
        self._config = setup.runtime.runner.ray
        self._setup, self._stop = setup, stop
        self._ray = connect(self._config.address, "runner.ray.address")
        self._workers = Workers(self._ray, setup, budget, stop)
        self._nodes, self._changed = self._workers.nodes, self._workers.changed
        self._begun = False

    def checks(self, works: Sequence[Work]) -> Sequence[Check]:
        """See `collect.rollouts.executor.Executor`. Each node checks what it needs itself."""
        return (Check("nodes", partial(self._first_node, works[0])),)

    def do(self, work: Work) -> Rows:
        """See `collect.rollouts.executor.Executor`."""
        lost: list[str] = []
        failed: dict[str, Rows] = {}
        """Results by id of the node at fault, the last one last."""
        while len(lost) + len(failed) < self._config.tries:
            try:
                turn = self._take(work, failed)
            except NodeLost as error:
                return _last(failed) or self._setup.failed(work, error)
            if turn is None:
                break
            answer = self._take_turn(turn, work)
            if answer is None:
                lost.append(turn.node.host)
            elif answer.refused is not None:
                raise ConfigError(answer.refused)
            elif answer.rows is None:
                raise RolloutStopped("the run is being stopped")
            elif not self._at_fault(turn.node, work, answer.rows):
                return answer.rows
            else:
                failed[turn.node.id] = answer.rows
        gone = f"{counted(len(lost), 'worker')} died with it, on {', '.join(lost)}"
        failure = NodeLost(f"{gone}; look at their memory and Ray's logs")
        return _last(failed) or self._setup.failed(work, failure)

    def nodes(self) -> Sequence[NodeStatus]:
        """See `collect.rollouts.executor.Executor`."""
        with self._changed:
            return self._nodes.statuses

    def close(self) -> None:
        """End the workers. A cluster that was running before goes on."""
        self._workers.close()
        self._ray.shutdown()

    def _first_node(self, first: Work) -> str:
        """Wait for a node that can do a rollout. Raises ConfigError if none can."""
        self._workers.start(first)
        try:
            turn = self._take(first)
        except NodeLost as error:
            raise ConfigError(str(error)) from error
        if turn is not None:
            self._give(turn)
        self._begun = True
        return "; ".join(f"{node.host}: {node.state}" for node in self.nodes())

    def _take(self, work: Work, avoided: Collection[str] = ()) -> Turn | None:
        """Wait for room on a node; None if all nodes are in `avoided`.

        Raises RolloutStopped, NodeLost, ConfigError.
        """
        images = required_images([work.spec.instance], self._setup.runtime.sandbox)
        with self._changed:
            while True:
                raise_if_stopped(self._stop)
                node = self._nodes.best(images, avoided)
                if node is not None:
                    node.begin(images)
                    return Turn(node, node.worker, images)
                if avoided and not self._nodes.others(avoided):
                    return None
                self._check_nodes()
                self._changed.wait(POLL_SECONDS)

    def _check_nodes(self) -> None:
        """Raises ConfigError if no node can do rollouts; before the first rollout also if that may
        pass, because the user is still there. Raises NodeLost if it has lasted too long."""
        refusals = self._nodes.refusals(for_good=self._begun)
        if refusals:
            raise ConfigError(f"no node of the cluster can do rollouts: {'; '.join(refusals)}")
        timeout = self._config.node_timeout
        if time.monotonic() - self._workers.hopeful_at > timeout:
            ailing = [node for node in self._nodes.all if node.ailment is not None]
            raise NodeLost(
                f"the Ray cluster has had no node that can do rollouts for {timeout:g} s "
                "(runner.ray.node_timeout); `ray status` shows its nodes, which must offer CPUs"
                + "".join(f"; {node.host}: {node.ailment}" for node in ailing)
            )

    def _take_turn(self, turn: Turn, work: Work) -> Answer | None:
        """The result of the rollout on a node; None if its worker was lost."""
        try:
            answer = self._answer(turn.worker, work)
        except losses(self._ray):
            self._log(work).note("lost", host=turn.node.host)
            self._workers.lost(turn.node, turn.worker)
            return None
        finally:
            self._give(turn)
        with self._changed:
            if answer.images is not None:
                turn.node.present = answer.images
        return answer

    def _answer(self, worker: Any, work: Work) -> Answer:
        """The result of the rollout on a node. A stop is passed to the worker, which then ends
        soon."""
        future: Future[Answer] = worker.do.remote(work).future()
        try:
            return self._workers.wait(future)
        except RolloutStopped:
            worker.stop.remote()
        wait([future], STOP_SECONDS)
        if future.done():
            return future.result()
        raise RolloutStopped("the run is being stopped")

    def _at_fault(self, node: Node, work: Work, rows: Rows) -> bool:
        """Whether the node may have caused the rollout's failure, which may exclude it."""
        fault = fault_of(rows[0])
        with self._changed:
            told = node.report(fault, work.spec.instance.id)
        if fault is None:
            return False
        self._log(work).note("failed_there", host=node.host, why=fault)
        # A rollout that may be resumed elsewhere keeps its replies, as for the next start.
        forget_replies(self._setup.folder, rows[0])
        if told is not None:
            logger.warning(told)
        return True

    def _give(self, turn: Turn) -> None:
        with self._changed:
            turn.node.end(turn.images)
            self._changed.notify_all()

    def _log(self, work: Work) -> RolloutLog:
        text = log_file(self._setup.folder, work.spec.id)
        return RolloutLog(text if self._setup.runtime.runner.logs else None)


def _last(failed: dict[str, Rows]) -> Rows | None:
    """The result from the last of the nodes, by id, that the rollout failed on."""
    return next(reversed(failed.values()), None)
