"""Rollouts on a real Ray cluster, whose nodes and workers are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import ray

from collect.benchmarks.bundled import BundledBenchmark
from collect.config import RayConfig, RunnerConfig, RuntimeConfig
from collect.errors import ConfigError, FailureKind
from collect.models.budget import SPENT, Budget
from collect.rollouts.executor import RolloutWork, Rows, Setup
from collect.rollouts.ray_cluster import cluster as ray_workers
from collect.rollouts.ray_cluster.cluster import RayCluster, nodes_with_room
from collect.rollouts.rollout import RolloutSettings, RolloutSpec
from collect.rollouts.rows import RunIdentity
from collect.rollouts.status import read_heartbeat
from collect.store.records import Rollout
from collect.store.run_store import RunStore
from configs.command_line.shared import STOPPED
from sandbox import SandboxConfig
from sandbox.errors import NotStarted
from stepinto import main
from tests.chaos.ground import RayNodes
from tests.collect.models.chat_server import Answer, ChatServer, error, frontier_at, reply
from tests.wandb_file import offline_runs

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).resolve().parents[4]
QUICKSTART = ROOT / "configs" / "quickstart.yaml"
ENDPOINT = ROOT / "configs" / "debug2fix.yaml"
SECONDS = 120
"""For what takes a few on a machine that is not busy."""


def command(folder: Path, nodes: RayNodes, *overrides: str, config: Path = QUICKSTART) -> list[str]:
    return [
        "collect",
        str(config),
        f"runs_folder={folder}",
        "run=test",
        "runner.backend=ray",
        f"runner.ray.address={nodes.address}",
        "runner.ray.per_node=2",
        "runner.concurrency=6",
        "collect.benchmark.limit=4",
        *overrides,
    ]


def asking(server: ChatServer, folder: Path, nodes: RayNodes, *overrides: str) -> list[str]:
    """The command for a main agent without a subagent, behind a server."""
    return command(folder, nodes, *frontier_at(server), *overrides, config=ENDPOINT)


def rows(folder: Path) -> list[Rollout]:
    return list(RunStore(folder / "test").read_rollouts())


def bash(script: str) -> Answer:
    call = {"name": "bash", "arguments": json.dumps({"command": script})}
    return reply(tool_calls=[{"id": "c", "function": call}])


@contextmanager
def four_under_way(
    server: ChatServer, folder: Path, nodes: RayNodes, *overrides: str
) -> Iterator[Future[int]]:
    """Four rollouts, two a node, each at its second request, which is answered afterwards."""
    server.will_answer(bash("ls"))
    server.after_a_call = reply(hold=True)
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(main, asking(server, folder, nodes, *overrides))
        try:
            for _ in range(8):
                assert server.arrived.acquire(timeout=SECONDS)
            yield run
        finally:
            server.released.set()


def whole(folder: Path) -> bool:
    """Whether each of the four has one row, with the two steps that it took."""
    found = [(row.failure_kind, row.main_steps) for row in rows(folder)]
    return found == [(None, 2)] * 4 and len({row.rollout_id for row in rows(folder)}) == 4


def test_a_cluster_does_what_one_machine_does(nodes: RayNodes, tmp_path: Path) -> None:
    two = "collect.benchmark.limit=2"
    assert main(command(tmp_path / "ray", nodes, two)) == 0
    assert main(command(tmp_path / "one", nodes, two, "runner.backend=threads")) == 0
    assert said(tmp_path / "ray") == said(tmp_path / "one")
    beat = read_heartbeat(tmp_path / "ray" / "test")
    assert beat is not None
    # Nothing waits for a node that gets ready only once the others have done all.
    assert len(beat.nodes) == 2
    assert "ready" in {node.state for node in beat.nodes}
    assert sum(node.done for node in beat.nodes) == 2


def said(folder: Path) -> dict[str, list[str]]:
    held = RunStore(folder / "test").read_conversations()
    return {
        each.conversation_id: [
            call.name for row in each.messages for call in row.message.tool_calls
        ]
        for each in held
    }


@pytest.mark.slow
def test_what_a_lost_node_did_is_done_by_another(
    nodes: RayNodes, server: ChatServer, tmp_path: Path
) -> None:
    with four_under_way(server, tmp_path, nodes) as run:
        nodes.kill()
    assert run.result(SECONDS) == 0
    assert whole(tmp_path)
    assert len(server.requests) == 8 + 2, "the two of the lost node go on where they were"
    beat = read_heartbeat(tmp_path / "test")
    assert beat is not None
    # Whether Ray has noticed yet that the node is gone is a matter of seconds.
    assert {(node.done, node.lost) for node in beat.nodes} == {(4, 0), (0, 2)}
    nodes.add()


@pytest.mark.slow
def test_dead_workers_are_started_again(
    nodes: RayNodes, server: ChatServer, tmp_path: Path
) -> None:
    with four_under_way(server, tmp_path, nodes) as run:
        assert nodes.kill_workers() == 2
    assert run.result(SECONDS) == 0
    assert whole(tmp_path)
    assert len(server.requests) == 8 + 4


@pytest.mark.slow
def test_what_a_run_tells_reaches_the_driver(
    nodes: RayNodes, server: ChatServer, tmp_path: Path
) -> None:
    pytest.importorskip("wandb", reason="wandb is not installed")
    with four_under_way(server, tmp_path, nodes, "runner.wandb={}") as run:
        assert nodes.kill_workers() == 2
    assert run.result(SECONDS) == 0
    logs = {path.stem: path.read_text() for path in (tmp_path / "test" / "logs").iterdir()}
    assert logs.keys() == {row.rollout_id for row in rows(tmp_path)}
    for text in logs.values():
        told = [json.loads(line) for line in text.splitlines()]
        names = [event["event"] for event in told]
        lost = names.index("lost")
        assert names[lost + 1 :] == [
            *("begun", "sandbox_opened", "reply_kept", "replied", "tool_called", "replied"),
            *("scored", "ended"),
        ]
        assert names[0] == "begun"
        assert told[0]["process"] != told[lost + 1]["process"]
    (tracked,) = offline_runs(tmp_path / "test")
    end = tracked.numbers[-1]
    assert (end["rollouts/done"], end["nodes/lost_rollouts"]) == (4, 4)
    assert end["nodes/ready"] >= 1, "nothing waits for a worker that is started again"


@pytest.mark.slow
def test_a_new_node_is_used(nodes: RayNodes, server: ChatServer, tmp_path: Path) -> None:
    nodes.kill()
    server.will_answer(reply(hold=True))
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(main, asking(server, tmp_path, nodes))
        for _ in range(2):
            assert server.arrived.acquire(timeout=SECONDS)
        nodes.add()
        for _ in range(2):
            assert server.arrived.acquire(timeout=SECONDS)
        server.released.set()
        assert run.result(SECONDS) == 0
    assert len(rows(tmp_path)) == 4


@pytest.mark.slow
def test_a_limit_on_requests_holds_for_all_nodes(
    nodes: RayNodes, server: ChatServer, tmp_path: Path
) -> None:
    assert main(asking(server, tmp_path, nodes, "models.frontier.concurrency=1")) == 0
    assert len(rows(tmp_path)) == 4
    assert server.most_at_once == 1


@pytest.mark.slow
def test_a_worker_that_dies_while_it_gets_ready_gives_back_its_slots(
    nodes: RayNodes, server: ChatServer, tmp_path: Path
) -> None:
    server.will_answer(reply(hold=True), reply())
    one = ("models.frontier.concurrency=1", "models.frontier.check_tools=true")
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(main, asking(server, tmp_path, nodes, *one))
        try:
            assert server.arrived.acquire(timeout=SECONDS)
            assert nodes.kill_workers()
        finally:
            server.released.set()
        assert run.result(SECONDS) == 0
    assert len(rows(tmp_path)) == 4


@pytest.mark.slow
def test_a_node_whose_models_server_was_down_is_tried_again(
    nodes: RayNodes, server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_workers, "EXCLUDED_SECONDS", 1.0)
    server.will_answer(error(503, "overloaded"), bash("ls"))
    server.after_a_call = reply(hold=True)
    with ThreadPoolExecutor(1) as pool:
        checked = "models.frontier.check_tools=true"
        run = pool.submit(main, asking(server, tmp_path, nodes, checked))
        try:
            # Two come of the node that is refused, one of each node that is not, two a rollout.
            for _ in range(2 + 2 + 8):
                assert server.arrived.acquire(timeout=SECONDS)
        finally:
            server.released.set()
        assert run.result(SECONDS) == 0
    assert whole(tmp_path)


@pytest.mark.slow
def test_a_budget_holds_for_all_nodes(nodes: RayNodes, server: ChatServer, tmp_path: Path) -> None:
    dear = ("models.frontier.prices={input: 10000}", "models.frontier.concurrency=1")
    assert main(asking(server, tmp_path, nodes, *dear, "runner.budget_dollars=1.5")) == STOPPED
    kinds = Counter(row.failure_kind for row in rows(tmp_path))
    # Another may have been sent before the second was counted.
    assert kinds[None] == len(server.requests) in (2, 3)
    assert kinds[FailureKind.BUDGET] >= 1
    assert float((tmp_path / "test" / "spent.txt").read_text()) == len(server.requests)
    assert main(asking(server, tmp_path, nodes, *dear, "runner.budget_dollars=10")) == 0
    assert Counter(row.failure_kind for row in rows(tmp_path)) == {None: 4}
    assert len(server.requests) == 4


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_the_driver_is_stopped_or_killed(
    nodes: RayNodes, server: ChatServer, tmp_path: Path, how: signal.Signals
) -> None:
    server.will_answer(bash("ls"))
    server.after_a_call = reply(hold=True)
    driver = subprocess.Popen(
        [sys.executable, "-m", "stepinto", *asking(server, tmp_path, nodes)], cwd=ROOT
    )
    for _ in range(8):
        assert server.arrived.acquire(timeout=SECONDS)
    driver.send_signal(how)
    assert driver.wait(SECONDS) == (STOPPED if how == signal.SIGTERM else -how)
    until = time.monotonic() + SECONDS
    while nodes.processes():
        assert time.monotonic() < until, "the workers end with their driver"
        time.sleep(0.2)
    assert not rows(tmp_path)
    server.released.set()
    assert main(asking(server, tmp_path, nodes)) == 0
    assert whole(tmp_path)
    assert len(server.requests) == 8 + 4


@pytest.mark.slow
def test_a_model_that_no_node_can_open_ends_the_run(
    nodes: RayNodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = "models.oracle={backend: replay, path: /nowhere}"
    assert main(command(tmp_path, nodes, gone)) == 2
    told = capsys.readouterr().err
    assert "no node of the cluster can do rollouts" in told
    assert "/nowhere" in told


@pytest.mark.slow
def test_each_node_asks_its_models_first(
    nodes: RayNodes, server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.will_answer(error(401, "wrong key"))
    assert main(asking(server, tmp_path, nodes, "models.frontier.check_tools=true")) == 2
    told = capsys.readouterr().err
    assert "no node of the cluster can do rollouts" in told
    assert "wrong key. What to do: check the key in the environment" in told
    assert not rows(tmp_path)


@pytest.mark.parametrize(
    "address", ["127.0.0.1:9", pytest.param("ray://head:10001", marks=pytest.mark.slow)]
)
def test_no_cluster_at_the_address(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], address: str
) -> None:
    settings = [f"runs_folder={tmp_path}", "runner.backend=ray", f"runner.ray.address={address}"]
    assert main(["collect", str(QUICKSTART), *settings]) == 2
    assert f"no Ray cluster answers at runner.ray.address='{address}'" in capsys.readouterr().err


@pytest.mark.slow
def test_a_cluster_without_nodes(
    nodes: RayNodes, server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timeout = ("runner.ray.node_timeout=2", "runner.give_up_after=2")
    with four_under_way(server, tmp_path, nodes, *timeout) as run:
        nodes.kill()
        nodes.kill()
    assert run.result(SECONDS) == 1
    assert {row.failure_type for row in rows(tmp_path)} == {"NodeLost"}
    assert "has had no node that can do rollouts for 2 s" in capsys.readouterr().err
    nodes.add()
    nodes.add()
    assert main(asking(server, tmp_path, nodes, *timeout)) == 0
    assert whole(tmp_path)


@dataclass(frozen=True)
class Deadly(RolloutWork):
    """One that takes its worker with it."""

    def do(self, settings: RolloutSettings) -> Rows:
        os._exit(1)


@dataclass(frozen=True)
class Large(RolloutWork):
    """One whose rows are too large to come with the worker's answer."""

    def do(self, settings: RolloutSettings) -> Rows:
        rollout, conversations = super().do(settings)
        return replace(rollout, patch="x" * 1_000_000), conversations


@dataclass(frozen=True)
class TimedOut(RolloutWork):
    """One that ends with Python's own TimeoutError."""

    def do(self, settings: RolloutSettings) -> Rows:
        raise TimeoutError("no answer")


@contextmanager
def doing(
    kind: type[RolloutWork], nodes: RayNodes, folder: Path, **sandbox: str
) -> Iterator[tuple[RayCluster, RolloutWork]]:
    """A cluster that is ready, and one rollout to do."""
    benchmark = BundledBenchmark()
    instance = next(iter(benchmark.instances()))
    config = RayConfig(address=nodes.address, tries=2, node_timeout=SECONDS)
    runtime = RuntimeConfig(
        sandbox=SandboxConfig.model_validate(sandbox),
        runner=RunnerConfig(backend="ray", ray=config),
    )
    models = {"oracle": runtime.model_config_of("oracle")}
    setup = Setup(runtime, benchmark, models, folder)
    spec = RolloutSpec(instance, "debug2fix", "oracle", "oracle", 0)
    work = kind(spec, RunIdentity("test", 0), "hash")
    with closing(RayCluster(setup, Budget(None), threading.Event())) as cluster:
        for check in cluster.checks([work]):
            check.look()
        yield cluster, work


@pytest.mark.slow
def test_a_rollout_that_kills_its_workers_fails(nodes: RayNodes, tmp_path: Path) -> None:
    with doing(Deadly, nodes, tmp_path) as (cluster, work):
        rollout, conversations = cluster.do(work)
    assert (rollout.failure_kind, rollout.failure_type) == (FailureKind.INFRASTRUCTURE, "NodeLost")
    assert "2 workers died with it" in (rollout.failure_message or "")
    assert rollout.teacher == "oracle"
    assert not conversations


@pytest.mark.slow
def test_rows_that_are_lost_with_their_node_are_made_anew(
    nodes: RayNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = RayCluster._answer
    answered: list[Any] = []

    def late(cluster: RayCluster, worker: Any, work: RolloutWork) -> Any:
        """The first is fetched once its node is gone."""
        if not answered:
            answered.append(worker.do.remote(work))
            assert ray.wait(answered, timeout=SECONDS, fetch_local=False)[0]
            (at,) = [node.id for node in cluster._nodes.all if node.running]
            nodes.kill([node.node_id for node in nodes.workers].index(at))
            return cluster._workers.wait(answered[0].future())
        return answer(cluster, worker, work)

    monkeypatch.setattr(RayCluster, "_answer", late)
    with doing(Large, nodes, tmp_path) as (cluster, work):
        rollout, _ = cluster.do(work)
        counts = [(node.done, node.lost) for node in cluster.nodes()]
    assert len(rollout.patch) == 1_000_000
    assert [sum(count) for count in zip(*counts, strict=True)] == [1, 1]


@pytest.mark.slow
def test_a_time_out_in_a_worker_is_its_rollouts_row(nodes: RayNodes, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as pool, doing(TimedOut, nodes, tmp_path) as (cluster, work):
        row, _ = pool.submit(cluster.do, work).result(SECONDS)
    assert row.failure_type == "TimeoutError"
    assert "no answer" in (row.failure_message or "")


@dataclass(frozen=True)
class OnBrokenNodes(RolloutWork):
    """One that fails on the nodes whose ids are files of a folder."""

    broken: Path = Path()

    def do(self, settings: RolloutSettings) -> Rows:
        if (self.broken / ray.get_runtime_context().get_node_id()).exists():
            return self.failed(NotStarted("the engine is broken"), settings)
        return super().do(settings)


def all_ready(cluster: RayCluster) -> None:
    until = time.monotonic() + SECONDS
    while [node.state for node in cluster.nodes()] != ["ready", "ready"]:
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.slow
def test_a_broken_node_is_excluded_and_others_do_its_rollouts(
    nodes: RayNodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with doing(OnBrokenNodes, nodes, tmp_path) as (cluster, first):
        assert isinstance(first, OnBrokenNodes)
        works = [
            replace(first, spec=replace(first.spec, instance=instance), broken=tmp_path)
            for instance in islice(BundledBenchmark().instances(), 6)
        ]
        all_ready(cluster)
        broken, well = cluster._nodes.all
        (tmp_path / broken.id).touch()
        with ThreadPoolExecutor(2) as pool:
            done = list(pool.map(cluster.do, works))
        assert [row.failure_type for row, _ in done] == [None] * 6
        assert broken.status.state == "excluded: NotStarted: the engine is broken"
        assert (broken.done, well.done) == (0, 6)
        assert "for the next 120 s: NotStarted: the engine is broken" in capsys.readouterr().err

        (tmp_path / well.id).touch()
        row, _ = cluster.do(works[0])
        assert row.failure_type == "NotStarted", "there is no other node"

        (tmp_path / broken.id).unlink()
        broken.excluded_until = time.monotonic()
        row, _ = cluster.do(works[0])
        assert row.failure_type is None
        assert (broken.status.state, broken.done) == ("ready", 1)


@pytest.mark.slow
def test_a_worker_is_lost_as_it_is_given_a_rollout(
    nodes: RayNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = RayCluster._take
    hosts: list[str] = []

    def taken(cluster: RayCluster, work: RolloutWork, avoided: Collection[str] = ()) -> Any:
        turn = take(cluster, work, avoided)
        if turn is not None and not hosts:
            hosts.append(turn[0].host)
            cluster._workers.lost(*turn)
        return turn

    with doing(RolloutWork, nodes, tmp_path) as (cluster, work):
        monkeypatch.setattr(RayCluster, "_take", taken)
        row, _ = cluster.do(work)
    assert row.failure_type is None


@pytest.mark.slow
def test_nodes_are_looked_at_again_where_ray_does_not_answer(
    nodes: RayNodes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    looks = Counter[str]()

    def unsteady() -> dict[str, str]:
        looks["so far"] += 1
        if looks["so far"] <= 2:
            raise RuntimeError("the head is out of reach")
        return nodes_with_room()

    monkeypatch.setattr(ray_workers, "nodes_with_room", unsteady)
    with doing(RolloutWork, nodes, tmp_path) as (cluster, work):
        row, _ = cluster.do(work)
    assert row.failure_type is None
    assert capsys.readouterr().err.count("the head is out of reach") == 1


@pytest.mark.slow
def test_a_worker_that_starts_while_the_run_ends(
    nodes: RayNodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wait = ray_workers.Workers.wait
    waited, ended = threading.Semaphore(1), threading.Event()

    def late(started: ray_workers.Workers, future: Future[Any]) -> Any:
        """The second node's worker is lost just when the run ends."""
        if waited.acquire(blocking=False):
            return wait(started, future)
        started._closed.wait(SECONDS)
        time.sleep(1)
        ended.set()
        raise ray.exceptions.RayError("it is gone")

    monkeypatch.setattr(ray_workers.Workers, "wait", late)
    with doing(RolloutWork, nodes, tmp_path):
        pass
    assert ended.wait(SECONDS)
    time.sleep(1)
    assert not ray.is_initialized(), "nothing of Ray is called after its end"


@pytest.mark.slow
def test_shared_state_that_has_died_is_named(nodes: RayNodes, tmp_path: Path) -> None:
    with doing(RolloutWork, nodes, tmp_path) as (cluster, work):
        ray.kill(cluster._workers._shared_state)
        with pytest.raises(
            ConfigError, match=r"ray::SharedState\) has died.* the same command goes on"
        ):
            cluster.do(work)


@pytest.mark.slow
def test_a_run_folder_that_cannot_be_written_to_is_named(nodes: RayNodes, tmp_path: Path) -> None:
    with doing(RolloutWork, nodes, tmp_path) as (cluster, work):
        (tmp_path / SPENT).mkdir()
        with pytest.raises(
            ConfigError, match=r"run folder can't be written to.*[Dd]irectory.*goes on"
        ):
            cluster.do(work)
