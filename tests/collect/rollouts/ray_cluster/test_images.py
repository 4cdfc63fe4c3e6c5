"""The images of a node: a real engine fetches them from a registry of this machine."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from collect.benchmarks.base import Instance
from collect.benchmarks.bundled import BundledBenchmark
from collect.config import RuntimeConfig
from collect.errors import FailureKind, RolloutStopped
from collect.models.budget import Budget
from collect.rollouts.executor import RolloutWork, Setup, ThisMachine
from collect.rollouts.ray_cluster.worker import NodeImages, NodeWorker
from collect.rollouts.rollout import RolloutSpec
from collect.rollouts.rows import RunIdentity
from sandbox import SandboxConfig, images
from sandbox.engine import connect, image_or_none, local_root
from sandbox.errors import EngineDown, ImageMissing, NoRoomForImage, PullLimited, SandboxUnavailable
from sandbox.images import GIGABYTE, ImagePuller, ImagesConfig, ImageStore
from tests.sandbox.engine_server import EngineServer
from tests.sandbox.registry import SIZE, Registry

SECONDS = 60


@pytest.fixture
def registry(engine: Any) -> Iterator[Registry]:
    if local_root() is None:
        pytest.skip("needs an engine of this machine, which finds a registry here")
    with Registry().running() as running:
        yield running
        for made in engine.images.list(name=running.repository):
            engine.images.remove(made.id, force=True)


@dataclass
class Node:
    """One that has room for so many images of the registry's."""

    registry: Registry
    store: ImageStore
    room: float = 9.5
    settings: dict[str, float] = field(default_factory=dict)
    stop: threading.Event = field(default_factory=threading.Event)
    measured: int = 0

    @property
    def images(self) -> NodeImages:
        limits = {"disk_gb": self.room * SIZE / GIGABYTE, "backoff": 0, "pull_limit_wait": 0}
        config = ImagesConfig.model_validate({**limits, **self.settings})
        runtime = RuntimeConfig(sandbox=SandboxConfig(backend="docker"), images=config)
        opened = partial(ImagePuller, store=self.store, measure=self.measure)
        return NodeImages(runtime, self.stop, opened)

    def measure(self, client: Any) -> int:
        self.measured += 1
        return len(client.images.list(name=self.registry.repository)) * SIZE

    def bug(self, tag: str) -> Instance:
        return replace(BundledBenchmark().instances()[0], image=self.registry.image(tag))


@pytest.fixture
def node(registry: Registry, tmp_path: Path) -> Node:
    return Node(registry, ImageStore(tmp_path / "images.json"))


def there(node: Node) -> set[str]:
    with closing(connect()) as client:
        return {tag for tag in "abc" if image_or_none(client, node.registry.image(tag))}


def do(node_images: NodeImages, bug: Instance, until: threading.Event | None = None) -> None:
    """A rollout that takes until then."""
    with node_images.held(bug):
        assert until is None or until.wait(SECONDS)


@pytest.mark.docker
def test_an_image_is_fetched_once_for_all_that_need_it(node: Node) -> None:
    node_images = node.images
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: do(node_images, node.bug("a")), range(4)))
    assert there(node) == {"a"}
    assert node.store.read().keys() == {node.registry.image("a")}
    asked, measured = node.registry.asked.total(), node.measured
    do(node_images, node.bug("a"))
    do(node.images, node.bug("a"))
    assert (node.registry.asked.total(), node.measured) == (asked, measured)


@pytest.mark.docker
def test_no_image_is_needed_where_the_sandbox_is_no_container(node: Node) -> None:
    elsewhere = NodeImages(RuntimeConfig(), node.stop)
    do(elsewhere, node.bug("missing"))


@pytest.mark.slow
@pytest.mark.docker
def test_a_fetch_holds_up_none_whose_image_is_there(node: Node) -> None:
    node.settings = {"parallelism": 1}
    node_images = node.images
    do(node_images, node.bug("a"))
    node.registry.holding.clear()
    with ThreadPoolExecutor(2) as pool:
        fetching = [pool.submit(do, node_images, node.bug(tag)) for tag in "bc"]
        try:
            time.sleep(0.3)
            do(node_images, node.bug("a"))
            assert not any(each.done() for each in fetching)
        finally:
            node.registry.holding.set()
        assert [each.result(SECONDS) for each in fetching] == [None, None]
    assert there(node) == {"a", "b", "c"}


@pytest.mark.slow
@pytest.mark.docker
def test_what_rollouts_under_way_need_is_not_evicted(node: Node) -> None:
    node.room = 1.5
    node_images = node.images
    with node_images.held(node.bug("a")):
        do(node_images, node.bug("b"))
        do(node_images, node.bug("c"))
        assert there(node) == {"a", "c"}, "though a was used longest ago"
    do(node_images, node.bug("b"))
    assert there(node) == {"b", "c"}


@pytest.mark.slow
@pytest.mark.docker
def test_room_is_waited_for_as_long_as_rollouts_are_under_way(node: Node) -> None:
    node.room, node.settings = 0.5, {"parallelism": 1}
    node_images = node.images
    ended = threading.Event()
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(do, node_images, node.bug("a"), ended)
        while there(node) != {"a"}:
            assert not first.done()
            time.sleep(0.05)
        others = [pool.submit(do, node_images, node.bug(tag)) for tag in "bcb"]
        time.sleep(0.5)
        assert not any(each.done() for each in others)
        ended.set()
        for each in (first, *others):
            each.result(SECONDS)
    assert len(there(node)) == 1


@pytest.mark.slow
@pytest.mark.docker
def test_room_that_no_rollout_can_make(engine: Any, node: Node) -> None:
    engine.images.pull(node.registry.repository, "a")
    node.room = 0.5
    node_images = node.images
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(do, node_images, node.bug(tag)) for tag in "bcb"]
        for each in waiting:
            with pytest.raises(NoRoomForImage, match=r"images\.disk_gb=0\.001: raise it"):
                each.result(SECONDS)
    assert there(node) == {"a"}, "which StepInto has not fetched"


@pytest.mark.slow
@pytest.mark.docker
def test_the_registry_s_answers(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "FIRST_LIMIT_WAIT", 0.05)
    with pytest.raises(ImageMissing, match=r"manifest unknown|not found") as raised:
        do(node.images, node.bug("missing"))
    assert not isinstance(raised.value, PullLimited)
    node.registry.limited = 1000
    with pytest.raises(PullLimited, match=r"a' can't be fetched.*toomanyrequests"):
        do(node.images, node.bug("a"))
    node.registry.limited = 10
    node.settings = {"pull_limit_wait": SECONDS}
    do(node.images, node.bug("a"))
    node.registry.broken = 1
    do(node.images, node.bug("b"))
    assert there(node) == {"a", "b"}


@pytest.mark.docker
def test_a_run_that_is_stopped_waits_for_no_registry(node: Node) -> None:
    node.settings = {"pull_limit_wait": 3600}
    node.registry.limited = 1000
    threading.Timer(0.5, node.stop.set).start()
    began = time.monotonic()
    with pytest.raises(RolloutStopped):
        do(node.images, node.bug("a"))
    assert time.monotonic() - began < SECONDS / 2


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineServer]:
    with EngineServer().running() as running:
        monkeypatch.setenv("DOCKER_HOST", running.host)
        yield running


def runtime(wait: float) -> RuntimeConfig:
    return RuntimeConfig(sandbox=SandboxConfig(backend="docker", image="a:1", engine_wait=wait))


@pytest.mark.slow
def test_an_engine_that_fails_is_waited_for(broken: EngineServer) -> None:
    bug = BundledBenchmark().instances()[0]
    with pytest.raises(EngineDown, match="containerd"):
        do(NodeImages(runtime(0), threading.Event()), bug)
    refuse = threading.Timer(1.5, setattr, (broken, "status", 403))
    refuse.start()
    with pytest.raises(SandboxUnavailable) as raised:
        do(NodeImages(runtime(SECONDS), threading.Event()), bug)
    assert not isinstance(raised.value, EngineDown)


def test_an_engine_that_fails_ends_one_rollout_and_not_the_run(
    broken: EngineServer, tmp_path: Path
) -> None:
    config = runtime(0)
    benchmark = BundledBenchmark()
    setup = Setup(config, benchmark, {"oracle": config.model_config_of("oracle")}, tmp_path)
    spec = RolloutSpec(benchmark.instances()[0], "debug2fix", "oracle", "oracle", 0)
    work = RolloutWork(spec, RunIdentity("test", 0), "hash")
    worker = NodeWorker(setup, None, "node-1", 1)
    stop = threading.Event()
    worker._executor = ThisMachine(setup, Budget(None), stop, no_text)
    row, _ = asyncio.run(worker.do(work))
    assert (row.failure_kind, row.failure_type) == (FailureKind.INFRASTRUCTURE, "EngineDown")


def no_text(name: str) -> Any:
    raise AssertionError("nothing is written before the image is there")
