"""Rollouts on the nodes of a Ray cluster, seen from the driver."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import ray
from ray.job_config import JobConfig
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from collect.benchmarks.marks import required_images
from collect.errors import ConfigError, NodeLost, OutOfDisk, RolloutStopped
from collect.models.budget import Budget
from collect.preflight import Check
from collect.quantities import counted
from collect.rollouts.executor import RolloutWork, Rows, Setup
from collect.rollouts.faults import FAULTS
from collect.rollouts.journal import forget_replies
from collect.rollouts.ray_cluster.shared_state import SharedState
from collect.rollouts.ray_cluster.worker import NodeWorker
from collect.rollouts.status import NodeStatus
from collect.store.records import Rollout, code_version, digest
from collect.threads import POLL_SECONDS, raise_if_stopped, result_unless
from sandbox.errors import (
    DiskExceeded,
    ImageMissing,
    OutOfMemory,
    SandboxDead,
    SandboxError,
    SandboxUnavailable,
)

logger = logging.getLogger(__name__)
Result = TypeVar("Result")
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
WATCH_SECONDS = 0.5
STOP_SECONDS = 60.0
"""Seconds for a worker's rollouts to end after a stop."""
LOSSES = (
    ray.exceptions.RayActorError,
    ray.exceptions.WorkerCrashedError,
    ray.exceptions.OutOfMemoryError,
    ray.exceptions.OutOfDiskError,
    ray.exceptions.NodeDiedError,
    ray.exceptions.ObjectLostError,
)
"""Raised if a worker or its node is gone. A result of more than about 100 kB stays on the node
until it is fetched: it can be lost after the worker has finished."""


class _Job(JobConfig):
    """A job whose workers import from where this process does. Ray adds the current folder, whose
    modules would take the place of ours and of libraries."""

    def _get_proto_job_config(self) -> Any:
        known = {os.path.abspath(each) for each in sys.path}
        paths = self._py_driver_sys_path
        self._py_driver_sys_path = [each for each in paths if os.path.abspath(each) in known]
        return super()._get_proto_job_config()  # type: ignore[no-untyped-call]


def connect(address: str | None) -> None:
    """Connect to the Ray cluster at `address`: `auto`, or `HOST:PORT` of a head; None starts one on
    this machine. Raises ConfigError if there is none."""
    # Otherwise Ray contacts its vendor's server.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if ray.is_initialized():
        return
    try:
        if address not in (None, "auto"):
            # Ray would take minutes to find out that nothing listens there.
            host, colon, port = address.rpartition(":")
            if not colon or not port.isdecimal() or "/" in host:
                raise ValueError("it is neither `auto` nor HOST:PORT")
            socket.create_connection((host, int(port)), timeout=10.0).close()
        ray.init(
            address=address or "local",
            log_to_driver=False,
            logging_level=logging.ERROR,
            include_dashboard=None if address else False,
            job_config=_Job(),
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"no Ray cluster answers at runner.ray.address={address!r}: {error}; start one with "
            "`ray start --head`, or set runner.ray.address=null to work on this machine"
        ) from error


def nodes_with_room() -> dict[str, str]:
    """Hosts of the nodes that are alive and offer CPUs, by node id: a head without CPUs
    (`--num-cpus=0`) does no rollouts."""
    return {
        node["NodeID"]: node["NodeManagerHostname"]
        for node in ray.nodes()  # type: ignore[no-untyped-call]
        if node["Alive"] and node["Resources"].get("CPU", 0) > 0
    }


def fault_of(row: Rollout) -> str | None:
    """The node's fault that may have ended a rollout, or None."""
    error = FAULTS.get(row.failure_type or "", Exception)
    if not issubclass(error, OF_A_NODE) or issubclass(error, OF_A_ROLLOUT):
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
    excluded_until: float = 0.0
    reason: str | None = None
    """Why it is or was excluded; None once a rollout has succeeded since."""
    failed_bugs: set[str] = field(default_factory=set)
    """Ids of the bugs that have failed by the node's fault since the last success."""

    @property
    def worker_name(self) -> str:
        """The last worker's name in the shared state."""
        return f"{self.id}-{self.starts}"

    def started(self, worker: Any) -> None:
        """A worker is ready. It has run a test, so the node works."""
        self.starting, self.worker = False, worker
        self.reason, self.excluded_until = None, 0.0
        self.failed_bugs.clear()

    def unready(self, reason: str) -> str | None:
        """The worker could not get ready, and is started again later; returns what to tell the
        user, once for each reason."""
        self.starting, known = False, reason == self.reason
        told = self.exclude(reason)
        self.start_at = self.excluded_until
        return None if known else told

    def died(self) -> None:
        """The worker is gone."""
        self.starting, self.worker = False, None
        self.start_at = time.monotonic() + min(2.0 ** min(self.deaths, 10), LONGEST_BACK_OFF)
        self.deaths += 1

    def report(self, fault: str | None, bug: str) -> str | None:
        """A rollout of a bug has ended; `fault` is the node's fault in it, if any. Returns what to
        tell the user if the node is now excluded."""
        if fault is None:
            self.done, self.deaths, self.reason = self.done + 1, 0, None
        else:
            self.failed_bugs.add(bug)
            if len(self.failed_bugs) < BUGS_IN_A_ROW:
                return None
        self.failed_bugs.clear()
        return self.exclude(fault) if fault is not None else None

    def exclude(self, reason: str) -> str:
        """Give it no rollouts for a while; returns what to tell the user."""
        self.reason, self.excluded_until = reason, time.monotonic() + EXCLUDED_SECONDS
        return f"no rollouts on {self.host} for the next {EXCLUDED_SECONDS:g} s: {reason}"

    @property
    def can_work(self) -> bool:
        """Whether it does rollouts now, with or without room for more."""
        return self.worker is not None and time.monotonic() >= self.excluded_until

    @property
    def hopeful(self) -> bool:
        """Whether it does rollouts, or may soon."""
        return self.worker is not None or (self.reason is None and self.deaths < HOPELESS_DEATHS)

    @property
    def status(self) -> NodeStatus:
        state = "ready" if self.worker is not None else "starting"
        if time.monotonic() < self.excluded_until:
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
        idle = [node for node in self.all if node.worker is None and not node.starting]
        return [node for node in idle if node.start_at <= time.monotonic()]

    def best(self, images: Sequence[str], avoided: Collection[str] = ()) -> Node | None:
        """The node for a rollout that needs these images, never one in `avoided`; None if all are
        busy. Each image has an order of hosts of its own, so that few hosts fetch it: the first of
        them that is not already doing half of `per_node` more than another."""
        able = [node for node in self.all if node.id not in avoided and node.can_work]
        free = [node for node in able if node.running < self._per_node]
        least = min((node.running for node in free), default=0)
        lead = (self._per_node + 1) // 2 if images else 1

        def rank(node: Node) -> tuple[bool, str]:
            return node.running >= least + lead, digest([node.host, *images])

        return min(free, key=rank, default=None)

    def others(self, avoided: Collection[str]) -> bool:
        """Whether another node, with or without room, does rollouts now. One that is only starting
        doesn't count: it may take hours."""
        return any(node.can_work and node.id not in avoided for node in self.all)

    @property
    def hopeful(self) -> bool:
        """Whether rollouts are done, or may be soon."""
        return any(node.hopeful for node in self.all)

    def ailments(self) -> list[str]:
        """Why no node can do rollouts at present; empty if one can, or has not reported yet."""
        ill = [node for node in self.all if node.worker is None and node.reason is not None]
        return [f"{node.host}: {node.reason}" for node in ill] if len(ill) == len(self.all) else []


class Workers:
    """The workers of a run: one on each node of a cluster, started, restarted, and ended.

    Thread-safe: `nodes` is read and changed only with `changed` held.
    """

    def __init__(self, setup: Setup, budget: Budget, stop: threading.Event) -> None:
        self._setup, self._stop = ray.put(setup), stop
        self._per_node = setup.runtime.runner.ray.per_node
        here = ray.get_runtime_context().get_node_id()
        # Calls may be repeated: a broken connection must end no rollout, nor leave a slot taken.
        self._shared_state = _on(here, SharedState, max_task_retries=-1).remote(
            setup.folder.resolve(), budget.limit_dollars, budget.spent
        )
        self.nodes = Nodes(self._per_node)
        self.changed = threading.Condition()
        self.hopeful_at = time.monotonic()
        """When a node last did rollouts, or was about to."""
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []
        """The threads that watch nodes and start workers."""

    def start(self, first: RolloutWork) -> None:
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
        ray.wait(closing, num_returns=len(closing), timeout=STOP_SECONDS)
        for actor in (*workers, self._shared_state):
            ray.kill(actor)

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

        def check_open() -> None:
            raise_if_stopped(self._stop)
            if self._closed.is_set():
                raise RolloutStopped("the run has ended")

        return result_unless(future, check_open)

    def _run(self, do: Callable[..., None], *arguments: object) -> None:
        """Run it in a thread of its own."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        self._threads.append(threading.Thread(target=do, args=arguments, daemon=True))
        self._threads[-1].start()

    def _watch(self, first: RolloutWork) -> None:
        """Track the nodes, and start a worker on each that has none."""
        told = ""
        while not self._closed.wait(WATCH_SECONDS) and not self._stop.is_set():
            try:
                alive = nodes_with_room()
                with self.changed:
                    self.nodes.update(alive)
                    for node in self.nodes.to_start():
                        node.starting = True
                        self._run(self._start, node, first)
                told = ""
            except Exception as error:
                # Any error: without this thread no worker would ever be restarted.
                told, before = str(error), told
                if told != before:
                    text = "the cluster's nodes can't be looked at, and will be again"
                    logger.warning(f"{text}: {told}")
            with self.changed:
                if self.nodes.hopeful:
                    self.hopeful_at = time.monotonic()
                self.changed.notify_all()

    def _start(self, node: Node, first: RolloutWork) -> None:
        """Start a worker, which may have to fetch an image first."""
        node.starts += 1
        name, worker = node.worker_name, None
        try:
            started = _on(node.id, NodeWorker)
            worker = started.remote(self._setup, self._shared_state, name, self._per_node)
            self.wait(worker.prepare.remote(code_version(), first).future())
        except RolloutStopped:
            return
        except Exception as error:
            # Any error: otherwise the node would seem to be starting forever.
            if worker is not None:
                self._let_go(worker, name)
            cause = getattr(error, "cause", None)  # the worker's own error, without a traceback
            with self.changed:
                if isinstance(cause, ConfigError | SandboxError):
                    told = node.unready(str(cause))
                else:
                    told = f"no worker on {node.host}: {error}"
                    node.died()
                self.changed.notify_all()
            if told:
                logger.warning(told)
        else:
            with self.changed:
                node.started(worker)
                self.changed.notify_all()

    def _let_go(self, worker: Any, name: str) -> None:
        """Kill a worker, which may only be out of reach and go on spending, and free its slots."""
        ray.kill(worker)
        # If the shared state has died, there is nothing to free; the next rollout reports it.
        with suppress(ray.exceptions.RayActorError):
            ray.get(self._shared_state.forget.remote(name))


def _on(node_id: str, actor: type, max_task_retries: int = 0) -> Any:
    """An actor class bound to a node."""
    return ray.remote(actor).options(
        num_cpus=0,
        scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
        max_task_retries=max_task_retries,
    )


class RayCluster:
    """Many machines. A rollout whose node is lost, or at fault, is done on another."""

    def __init__(self, setup: Setup, budget: Budget, stop: threading.Event) -> None:
        """Raises ConfigError if there is no cluster at the address."""
        self._config = setup.runtime.runner.ray
        self._setup, self._stop = setup, stop
        connect(self._config.address)
        self._workers = Workers(setup, budget, stop)
        self._nodes, self._changed = self._workers.nodes, self._workers.changed
        self._begun = False

    def checks(self, works: Sequence[RolloutWork]) -> Sequence[Check]:
        # Each node checks what it needs itself.
        def first_node() -> str:
            self._workers.start(works[0])
            try:
                turn = self._take(works[0])
            except NodeLost as error:
                raise ConfigError(str(error)) from error
            if turn is not None:
                self._give(turn[0])
            self._begun = True
            return "; ".join(f"{node.host}: {node.state}" for node in self.nodes())

        return (Check("nodes", first_node),)

    def do(self, work: RolloutWork) -> Rows:
        lost: list[str] = []
        failed: dict[str, Rows] = {}
        """Results by id of the node at fault, the last one last."""
        failure: NodeLost | None = None
        while len(lost) + len(failed) < self._config.tries:
            try:
                turn = self._take(work, failed)
            except NodeLost as error:
                failure = error
                break
            if turn is None:
                break
            node, worker = turn
            try:
                rows = self._answer(worker, work)
            except LOSSES:
                self._setup.log(work).note("lost", host=node.host)
                self._workers.lost(node, worker)
                lost.append(node.host)
                continue
            except ray.exceptions.RayTaskError as error:
                raise error.cause from error
            finally:
                self._give(node)
            if not self._at_fault(node, work, rows):
                return rows
            failed[node.id] = rows
        if failed:
            return next(reversed(failed.values()))
        if failure is None:
            gone = f"{counted(len(lost), 'worker')} died with it, on {', '.join(lost)}"
            failure = NodeLost(f"{gone}; look at their memory and Ray's logs")
        return self._setup.failed(work, failure)

    def nodes(self) -> Sequence[NodeStatus]:
        with self._changed:
            return self._nodes.statuses

    def close(self) -> None:
        """End the workers. A cluster that was running before goes on."""
        self._workers.close()
        ray.shutdown()

    def _take(self, work: RolloutWork, avoided: Collection[str] = ()) -> tuple[Node, Any] | None:
        """Wait for room on a node, and return it with its worker at that time; None if all nodes
        are in `avoided`. Raises RolloutStopped; before the first rollout ConfigError if no node can
        do rollouts, because the user is still there; NodeLost if that has lasted too long."""
        images = required_images([work.spec.instance], self._setup.runtime.sandbox)
        timeout = self._config.node_timeout
        with self._changed:
            while True:
                raise_if_stopped(self._stop)
                node = self._nodes.best(images, avoided)
                if node is not None:
                    node.running += 1
                    return node, node.worker
                if avoided and not self._nodes.others(avoided):
                    return None
                ailments = "; ".join(self._nodes.ailments())
                if ailments and not self._begun:
                    raise ConfigError(f"no node of the cluster can do rollouts: {ailments}")
                if time.monotonic() - self._workers.hopeful_at > timeout:
                    raise NodeLost(
                        "the Ray cluster has had no node that can do rollouts for "
                        f"{timeout:g} s (runner.ray.node_timeout); `ray status` shows its nodes, "
                        f"which must offer CPUs; {ailments}".removesuffix("; ")
                    )
                self._changed.wait(POLL_SECONDS)

    def _answer(self, worker: Any, work: RolloutWork) -> Rows:
        """The result of the rollout on a node. A stop is passed on to the worker."""
        future: Future[Rows] = worker.do.remote(work).future()
        try:
            return self._workers.wait(future)
        except RolloutStopped:
            worker.stop.remote()
        wait([future], STOP_SECONDS)
        if future.done():
            return future.result()
        raise RolloutStopped("the run is being stopped")

    def _at_fault(self, node: Node, work: RolloutWork, rows: Rows) -> bool:
        """Whether the node may have caused the rollout's failure, which may exclude it."""
        fault = fault_of(rows[0])
        with self._changed:
            told = node.report(fault, work.spec.instance.id)
        if fault is None:
            return False
        self._setup.log(work).note("failed_there", host=node.host, why=fault)
        # A rollout that may be resumed elsewhere keeps its replies, as for the next start.
        forget_replies(self._setup.folder, rows[0])
        if told is not None:
            logger.warning(told)
        return True

    def _give(self, node: Node) -> None:
        with self._changed:
            node.running -= 1
            self._changed.notify_all()
