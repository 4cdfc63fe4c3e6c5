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

from sandbox import Command, SandboxConfig, engine, open_sandbox
from sandbox.engine import EnginePause
from sandbox.errors import EngineDown, SandboxUnavailable
from tests.sandbox.image import TAG


class Engine:
    """Down until it is looked at so often."""

    def __init__(self, looks: int = 0) -> None:
        self.looks = looks
        self.looked = self.openings = self.open_now = self.most_at_once = 0
        self._lock = threading.Lock()

    def answers(self) -> None:
        self.looked += 1
        if self.looked < self.looks:
            raise EngineDown("the engine is down")

    def open(self) -> str:
        with self._lock:
            self.openings += 1
            self.open_now += 1
            self.most_at_once = max(self.most_at_once, self.open_now)
        time.sleep(0.05)
        with self._lock:
            self.open_now -= 1
        if self.looked < self.looks:
            raise EngineDown("the engine is down")
        return "opened"


@pytest.mark.slow
def test_all_wait_for_the_engine_and_one_looks() -> None:
    engine = Engine(looks=2)
    pause = EnginePause(engine.answers)
    with ThreadPoolExecutor(8) as pool:
        opened = [pool.submit(pause.open, engine.open, 8, 30) for _ in range(8)]
        assert [each.result(30) for each in opened] == ["opened"] * 8
    assert engine.looked == 2
    assert engine.openings <= 16, "each was tried once before, and once afterwards"


def test_patience_ends() -> None:
    engine = Engine(looks=1_000)
    began = time.monotonic()
    with pytest.raises(EngineDown):
        EnginePause(engine.answers).open(engine.open, 8, 1.5)
    assert engine.openings == 1, "while it is down, it is only looked at"
    assert time.monotonic() - began < 20


@pytest.mark.slow
def test_an_engine_that_hangs_costs_all_that_wait_one_look() -> None:
    looked = []

    def hangs() -> None:
        looked.append(time.monotonic())
        time.sleep(1)
        raise EngineDown("read timed out")

    pause = EnginePause(hangs)
    with pytest.raises(EngineDown):
        pause.ask(hangs, 0)
    looked.clear()
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(pause.ask, hangs, 0.5) for _ in range(8)]
        for each in asked:
            with pytest.raises(EngineDown, match="read timed out"):
                each.result(30)
    assert len(looked) == 1
    with pytest.raises(EngineDown):
        pause.ask(hangs, 0)
    assert len(looked) == 2, "what was seen before is no news of it"


def test_one_that_answers_but_does_not_open_is_asked_with_pauses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[str | float] = []

    def fail() -> None:
        said.append("asked")
        raise EngineDown("containerd is away")

    def slept() -> float:
        return sum(each for each in said if not isinstance(each, str))

    clock = SimpleNamespace(sleep=said.append, monotonic=slept)
    monkeypatch.setattr(engine, "time", clock)
    with pytest.raises(EngineDown, match="containerd"):
        EnginePause(Engine().answers).open(fail, 1, 3.5)
    assert said == ["asked", 1, "asked", 2, "asked"]


@pytest.mark.slow
def test_patience_begins_with_the_first_failure() -> None:
    answers = iter([EngineDown("it went down on the way"), None])

    def slow() -> str:
        time.sleep(1.5)
        failure = next(answers)
        if failure is not None:
            raise failure
        return "done"

    assert EnginePause(Engine().answers).ask(slow, 1.4) == "done"


def test_no_more_than_so_many_start_at_once() -> None:
    engine = Engine()
    pause = EnginePause(engine.answers)
    three = threading.Barrier(3)

    def opening() -> str:
        three.wait(30)
        return engine.open()

    with ThreadPoolExecutor(9) as pool:
        list(pool.map(lambda _: pause.open(opening, 3, 0), range(9)))
    assert engine.most_at_once == 3


def test_other_failures_pass_at_once() -> None:
    def fail() -> None:
        raise SandboxUnavailable("no such user")

    with pytest.raises(SandboxUnavailable, match="no such user"):
        EnginePause(Engine().answers).open(fail, 1, 30)


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
