"""Opening sandboxes while the container engine is down, or busy."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from sandbox import Command, SandboxConfig, base, container, open_sandbox
from sandbox.base import retry_while_down
from sandbox.errors import EngineDown, SandboxUnavailable
from tests.sandbox.image import TAG


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str | float]:
    """Requests, and the seconds slept between them, which no test waits for."""
    said: list[str | float] = []

    def slept() -> float:
        return sum(each for each in said if not isinstance(each, str))

    clock = SimpleNamespace(sleep=said.append, monotonic=slept)
    monkeypatch.setattr(base, "time", clock)
    return said


def test_an_engine_that_is_down_is_asked_with_pauses(said: list[str | float]) -> None:
    def fail() -> None:
        said.append("asked")
        raise EngineDown("containerd is away")

    with pytest.raises(EngineDown, match="containerd"):
        retry_while_down(fail, 3.5)
    assert said == ["asked", 1, "asked", 2, "asked"]


def test_patience_begins_with_the_first_failure(said: list[str | float]) -> None:
    failures = iter([EngineDown("it went down on the way")])

    def slow() -> str:
        said.append(1.5)
        for failure in failures:
            raise failure
        return "done"

    assert retry_while_down(slow, 1.4) == "done"


def test_no_more_than_so_many_start_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    most = open_now = 0
    lock, three = threading.Lock(), threading.Barrier(3)

    def open_container(*arguments: object) -> None:
        nonlocal most, open_now
        three.wait(30)
        with lock:
            open_now += 1
            most = max(most, open_now)
        time.sleep(0.05)
        with lock:
            open_now -= 1

    monkeypatch.setattr(container, "ContainerSandbox", open_container)
    config = SandboxConfig(backend="docker", image=TAG, starts_at_once=3)
    with ThreadPoolExecutor(9) as pool:
        list(pool.map(lambda _: open_sandbox(config), range(9)))
    assert most == 3


def test_other_failures_pass_at_once() -> None:
    def fail() -> None:
        raise SandboxUnavailable("no such user")

    with pytest.raises(SandboxUnavailable, match="no such user"):
        retry_while_down(fail, 30)


@dataclass(frozen=True)
class Sockets:
    """Where the engine is, and where it is looked for."""

    here: str
    away: Path


@pytest.fixture
def sockets(image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sockets:
    """An engine that is not there yet."""
    here = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not here.startswith("unix://"):
        pytest.skip(f"needs an engine at a Unix socket, not at {here}")
    away = tmp_path / "docker.sock"
    monkeypatch.setenv("DOCKER_HOST", f"unix://{away}")
    return Sockets(here.removeprefix("unix://"), away)


@pytest.mark.slow
@pytest.mark.docker
def test_a_container_opens_once_the_engine_is_back(sockets: Sockets) -> None:
    config = SandboxConfig(backend="docker", image=TAG, engine_wait=30)
    threading.Timer(1.5, os.symlink, (sockets.here, sockets.away)).start()
    with open_sandbox(config) as sandbox:
        assert sandbox.run(Command(["echo", "here"])).output == "here\n"


@pytest.mark.docker
def test_an_engine_that_stays_away(sockets: Sockets) -> None:
    config = SandboxConfig(backend="docker", image=TAG, engine_wait=0)
    with pytest.raises(EngineDown, match="start Docker"):
        open_sandbox(config)
