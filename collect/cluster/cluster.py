"""Rollouts on the nodes of a Ray cluster, as the driver sees them."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Any

from collect.benchmarks.images import required_images
from collect.cluster.connecting import connect, losses
from collect.cluster.health import fault_of
from collect.cluster.nodes import Node
from collect.cluster.worker import Answer
from collect.cluster.workers import STOP_SECONDS, Workers
from collect.errors import ConfigError, NodeLost, RolloutStopped
from collect.models.budget import Budget
from collect.models.waiting import POLL_SECONDS, raise_if_stopped
from collect.places import Setup
from collect.preflight.checks import Check
from collect.quantities import counted
from collect.rollout_journal import forget_replies
from collect.telling import tell
from collect.watching.heartbeat import NodeStatus
from collect.watching.log_lines import log_file, open_log
from collect.watching.rollout_log import RolloutLog
from collect.work import Rows, Work


@dataclass(frozen=True)
class Turn:
    """A rollout's at a node."""

    node: Node
    worker: Any
    """The handle of the actor that the node had then."""
    images: Sequence[str]
    """Those that the rollout needs."""
    began: float
    """On the monotonic clock."""


class RayCluster:
    """A place of many machines. A rollout whose node is lost, or at fault, is done on another."""

    def __init__(self, setup: Setup, budget: Budget, stop: threading.Event) -> None:
        """Raises ConfigError where there is no cluster at the address."""
        self._config = setup.machinery.runner.ray
        self._setup, self._stop = setup, stop
        self._ray = connect(self._config.address, "runner.ray.address")
        self._workers = Workers(self._ray, setup, budget, stop)
        self._nodes, self._changed = self._workers.nodes, self._workers.changed
        self._begun = False

    def checks(self, works: Sequence[Work]) -> Sequence[Check]:
        """See `collect.places.Place`. Each node looks at what it needs by itself."""
        return (Check("nodes", partial(self._first_node, works[0])),)

    def do(self, work: Work) -> Rows:
        """See `collect.places.Place`."""
        lost: list[str] = []
        failed: dict[str, Rows] = {}
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
                continue
            rows = _rows(answer)
            if not self._at_fault(turn, work, rows):
                return rows
            failed[turn.node.id] = rows
        gone = f"{counted(len(lost), 'worker')} died with it, on {', '.join(lost)}"
        failure = NodeLost(f"{gone}; look at their memory and Ray's logs")
        return _last(failed) or self._setup.failed(work, failure)

    def nodes(self) -> Sequence[NodeStatus]:
        """See `collect.places.Place`."""
        with self._changed:
            return self._nodes.statuses

    def close(self) -> None:
        """Let the workers go. A cluster that was running goes on."""
        self._workers.close()
        self._ray.shutdown()

    def _first_node(self, first: Work) -> str:
        """Wait for a node that can do a rollout. Raises ConfigError where none can."""
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
        """Wait for room on a node; None where there are no nodes but those `avoided`.

        Raises RolloutStopped, NodeLost, ConfigError.
        """
        images = required_images([work.spec.instance], self._setup.machinery.sandbox)
        with self._changed:
            while True:
                raise_if_stopped(self._stop)
                node = self._nodes.best(images, avoided)
                if node is not None:
                    return Turn(node, node.worker, images, node.begin(images))
                if avoided and not self._nodes.others(avoided):
                    return None
                self._check_nodes()
                self._changed.wait(POLL_SECONDS)

    def _check_nodes(self) -> None:
        """Raises ConfigError where no node can do rollouts; before the first one also where that
        may pass, for the user is still there. Raises NodeLost where it has lasted too long."""
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
        """What came of it on a node; None where its worker was lost."""
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
        """What came of it on a node. A stop is told to the worker, which then ends soon."""
        future: Future[Answer] = worker.do.remote(work).future()
        try:
            return self._workers.wait(future)
        except RolloutStopped:
            worker.stop.remote()
        wait([future], STOP_SECONDS)
        if future.done():
            return future.result()
        raise RolloutStopped("the run is being stopped")

    def _at_fault(self, turn: Turn, work: Work, rows: Rows) -> bool:
        """Whether the node may be why a rollout has failed, which may rest it."""
        node, fault, bug = turn.node, fault_of(rows[0]), work.spec.instance.id
        with self._changed:
            rests = node.health.ended(fault, bug, turn.began, time.monotonic())
            if fault is None:
                node.done += 1
                node.deaths = 0
        if fault is None:
            return False
        self._log(work).note("failed_there", host=node.host, why=fault)
        # What may go on elsewhere keeps its replies, as for the next start.
        forget_replies(self._setup.folder, rows[0])
        if rests:
            seconds = node.health.rest_seconds
            tell(f"{node.host} rests for {seconds:g} s: {fault}")
        return True

    def _give(self, turn: Turn) -> None:
        with self._changed:
            turn.node.end(turn.images, turn.began)
            self._changed.notify_all()

    def _log(self, work: Work) -> RolloutLog:
        text = log_file(self._setup.folder, work.spec.id)
        return open_log(self._setup.machinery.runner, text)


def _rows(answer: Answer) -> Rows:
    if answer.refused is not None:
        raise ConfigError(answer.refused)
    if answer.rows is None:
        raise RolloutStopped("the run is being stopped")
    return answer.rows


def _last(failed: dict[str, Rows]) -> Rows | None:
    """What came of a rollout on the last of the nodes that it failed on, by their ids."""
    return next(reversed(failed.values()), None)
