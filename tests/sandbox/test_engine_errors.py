"""What an engine that is broken makes of each question: a failure of a type that runs know."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError
from docker.models.containers import Container

from collect.benchmarks.bundled import BundledBenchmark
from collect.benchmarks.marks import require_images
from sandbox import SandboxConfig, doctor, images, open_sandbox
from sandbox.engine import (
    connect,
    create_container,
    find_image,
    local_root,
    owner_of,
    remove_leftover_containers,
)
from sandbox.errors import EngineDown, SandboxUnavailable
from sandbox.images import ImagePuller, ImagesConfig, ImageStore, image_bytes, store_here
from tests.sandbox.engine_server import EngineServer

CONFIG = SandboxConfig(backend="docker", image="a:1", engine_wait=0)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[EngineServer]:
    with EngineServer().running() as running:
        monkeypatch.setenv("DOCKER_HOST", running.host)
        yield running


@pytest.fixture
def client(engine: EngineServer) -> Iterator[Any]:
    connected = connect()
    yield connected
    connected.close()


@pytest.fixture
def questions(client: Any, tmp_path: Path) -> list[Callable[[], object]]:
    puller = ImagePuller(client, ImagesConfig(backoff=0), ImageStore(tmp_path / "images.json"))
    container = Container({"Id": "c0ffee"}, client)
    return [
        local_root,
        remove_leftover_containers,
        partial(find_image, client, "a:1"),
        partial(owner_of, container, "/testbed", "a:1"),
        partial(require_images, BundledBenchmark().instances()[:1], CONFIG),
        partial(puller.require, "a:1"),
        partial(puller.fetch, ["a:1"]),
        partial(puller.fetch, []),
        partial(open_sandbox, CONFIG),
    ]


@pytest.mark.parametrize("status", [500, 503, None])
def test_an_engine_that_fails_is_down(
    engine: EngineServer, questions: list[Callable[[], object]], status: int | None
) -> None:
    engine.status = status
    for question in questions:
        with pytest.raises(EngineDown):
            question()
        assert engine.asked, question
        engine.asked.clear()


def test_one_that_refuses_is_not(
    engine: EngineServer, questions: list[Callable[[], object]]
) -> None:
    engine.status, engine.message = 403, "authorization denied by plugin"
    for question in questions:
        with pytest.raises(SandboxUnavailable, match="authorization denied") as raised:
            question()
        assert not isinstance(raised.value, EngineDown)


def test_the_doctor_tells_of_it(engine: EngineServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    check = next(each for each in doctor.check_machine() if each.name == "Docker engine")
    assert not check.found
    assert "containerd: connection refused" in check.detail


@pytest.mark.parametrize(
    ("facts", "taken"),
    [
        ({"LayersSize": 7, "Images": []}, 7),
        ({"LayersSize": 0, "Images": None}, 0),
        ({"LayersSize": 7, "ImageUsage": {"TotalSize": 7}}, 7),
        ({"ImageUsage": {"TotalSize": 7}}, 7),
        ({"ImageUsage": {}}, 0),
        ({}, 0),
    ],
)
def test_what_images_take_is_told_by_every_engine(
    engine: EngineServer, client: Any, facts: dict[str, Any], taken: int
) -> None:
    engine.status, engine.facts = 200, facts
    assert image_bytes(client) == taken


def test_engines_that_share_a_home_keep_their_images_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    stores = []
    for engine_id in ("NODE:A", "NODE:B"):
        with EngineServer().running() as engine:
            engine.status, engine.facts = 200, {"ID": engine_id}
            monkeypatch.setenv("DOCKER_HOST", engine.host)
            stores.append(store_here())
            assert store_here().path == stores[-1].path
    one, other = stores
    one.add("a:1", "sha256:1")
    assert one.read().keys() == {"a:1"}
    assert other.read() == {}
    with one.holding("a:1"), other.if_free("a:1") as free:
        assert free


def test_a_container_that_is_refused(engine: EngineServer, client: Any) -> None:
    image = client.images.prepare_model({"Id": "sha256:1"})
    with pytest.raises(SandboxUnavailable, match=r"refused the sandbox.*containerd"):
        create_container(client, CONFIG, image, 20_000, "/")
    engine.status = None
    with pytest.raises(EngineDown):
        create_container(client, CONFIG, image, 20_000, "/")


def test_an_engine_that_measures_for_another_is_asked_again(
    engine: EngineServer, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Docker 20.10 answers."""
    engine.message = "a disk usage operation is already running"
    slept = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            engine.status, engine.facts = 200, {"LayersSize": 7}

    monkeypatch.setattr(images, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    assert image_bytes(client) == 7
    assert slept == [images.MEASURE_AGAIN] * 3
    engine.status, engine.facts = 500, None
    monkeypatch.setattr(images, "MEASURED_WITHIN", -1.0)
    with pytest.raises(APIError, match="already running"):
        image_bytes(client)
