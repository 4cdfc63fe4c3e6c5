"""A server that answers nobody for a while: who waits for it, how long, and who does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collect.errors import (
    EndpointDown,
    InfrastructureFailure,
    RateLimited,
    RolloutError,
    RolloutStopped,
)
from collect.models import endpoint as endpoint_module
from collect.models.base import Sampling
from collect.models.budget import Budget
from collect.models.config import OpenAIConfig, Retries
from collect.models.endpoint import EndpointBackend
from collect.store.messages import Message
from collect.store.run_store import RunStore
from stepinto import main
from tests.collect.models.chat_server import Answer, ChatServer, collect_from, error, reply
from tests.collect.models.contexts import context

DOWN = error(503, "overloaded")
LONG = 30.0


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "FIRST_WAIT", 0.02)
    monkeypatch.setattr(endpoint_module, "LONGEST_WAIT", 0.1)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as opened:
        yield opened


def backend(
    server: ChatServer,
    outage_wait: float = LONG,
    stop: threading.Event | None = None,
    backoff_base: float = 0.001,
    max_retries: int = 1,
    **settings: Any,
) -> EndpointBackend:
    """One whose server has answered it before."""
    retries = Retries(max_retries=max_retries, backoff_base=backoff_base, outage_wait=outage_wait)
    config = OpenAIConfig(
        backend="openai",
        model="large",
        base_url=server.url,
        api_key_env=None,
        retries=retries,
        **settings,
    )
    opened = EndpointBackend("main", config, Budget(None), stop or threading.Event())
    assert ask(opened) == "Hello."
    return opened


def ask(endpoint: EndpointBackend, question: str = "Hello?") -> str:
    asked = endpoint.open(context()).complete([Message("user", question)], [], Sampling())
    return asked.message.content


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("trouble", [DOWN, error(429, "slow down"), Answer(drop=True)])
def test_requests_wait_together_for_its_return(
    server: ChatServer,
    pool: ThreadPoolExecutor,
    capsys: pytest.CaptureFixture[str],
    trouble: Answer,
) -> None:
    endpoint = backend(server, concurrency=8)
    server.will_answer(trouble)
    asked = [pool.submit(ask, endpoint) for _ in range(8)]
    until(lambda: len(server.requests) > 20)
    before, since = len(server.requests), time.monotonic()
    time.sleep(0.5)
    assert len(server.requests) - before <= 8 * (2 + (time.monotonic() - since) / 0.02)
    assert not any(one.done() for one in asked)
    server.will_answer(reply("At last."))
    assert [one.result(10) for one in asked] == ["At last."] * 8
    refused, began, ended = capsys.readouterr().err.splitlines()
    assert refused.endswith("; such requests are sent again (retries)")
    assert began.startswith(f"stepinto: main (model large at {server.url}/) is out of service: ")
    assert began.endswith("; its requests wait, for 30s at most (retries.outage_wait)")
    assert "is back in service, after " in ended


def test_one_that_comes_back_haltingly_fails_none(
    server: ChatServer, pool: ThreadPoolExecutor
) -> None:
    """What waited for its return has all its retries again."""
    endpoint = backend(server, concurrency=8, max_retries=6)
    server.will_answer(DOWN)
    asked = [pool.submit(ask, endpoint) for _ in range(8)]
    until(lambda: len(server.requests) > 60)
    server.will_answer(reply("At last."), *[DOWN] * 8, reply("At last."))
    assert [one.result(10) for one in asked] == ["At last."] * 8


def test_a_long_wait_that_it_asks_for_is_not_kept(server: ChatServer) -> None:
    endpoint = backend(server, outage_wait=1000)
    server.will_answer(*[error(503, "maintenance", Retry_After="400")] * 3, reply("At last."))
    began = time.monotonic()
    assert ask(endpoint) == "At last."
    assert time.monotonic() - began < 20


def test_a_server_that_is_started_again_is_waited_for(pool: ThreadPoolExecutor) -> None:
    first = ChatServer()
    first.will_answer(replace(reply(), headers={"Connection": "close"}))
    with first.running():
        endpoint = backend(first)
    asked = pool.submit(ask, endpoint)
    time.sleep(0.3)
    assert not asked.done(), "nothing listens there"
    with ChatServer(port=first.port).running():
        assert asked.result(10) == "Hello."


def test_one_that_stays_away_fails_its_requests_as_ever(
    server: ChatServer, pool: ThreadPoolExecutor
) -> None:
    endpoint = backend(server, outage_wait=1)
    server.will_answer(DOWN)
    began = time.monotonic()
    asked = [pool.submit(ask, endpoint) for _ in range(4)]
    assert {type(one.exception(10)) for one in asked} == {EndpointDown}
    assert 1 <= time.monotonic() - began < 4, "they waited together"
    before = len(server.requests)
    with pytest.raises(EndpointDown):
        ask(endpoint)
    assert len(server.requests) - before == 2, "a later one did not wait, and was sent twice"
    server.will_answer(reply())
    assert ask(endpoint) == "Hello."
    server.will_answer(*[DOWN] * 5, reply("At last."))
    assert ask(endpoint) == "At last.", "it has answered, so that it is waited for again"


def test_an_address_that_never_worked_is_not_waited_for(server: ChatServer) -> None:
    server.will_answer(DOWN)
    with pytest.raises(EndpointDown):
        backend(server)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    "trouble",
    [
        error(401, "wrong key"),
        error(400, "unknown field"),
        error(400, "not this", "content_policy_violation"),
        error(429, "no credit", "insufficient_quota"),
        error(503, "come again tomorrow", Retry_After="80000"),
        Answer(body="<html>"),
    ],
)
def test_what_does_not_pass_is_not_waited_for(server: ChatServer, trouble: Answer) -> None:
    endpoint = backend(server)
    server.will_answer(trouble)
    began = time.monotonic()
    with pytest.raises(RolloutError):
        ask(endpoint)
    assert time.monotonic() - began < LONG


def test_a_stop_ends_the_wait_at_once(
    server: ChatServer, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint_module, "FIRST_WAIT", 20)
    stop = threading.Event()
    endpoint = backend(server, stop=stop)
    server.will_answer(DOWN)
    asked = [pool.submit(ask, endpoint) for _ in range(4)]
    time.sleep(0.2)
    stop.set()
    began = time.monotonic()
    for one in asked:
        with pytest.raises(RolloutStopped):
            one.result(10)
    assert time.monotonic() - began < 10


class Picky(ChatServer):
    """Refuses some requests, by what they ask."""

    def __init__(self, refusal: Answer, times: float = float("inf")) -> None:
        super().__init__()
        self._refusal, self._times = refusal, times

    def _next(self, request: dict[str, Any]) -> Answer:
        if "hard" in str(request["messages"]) and self._times > 0:
            self._times -= 1
            return self._refusal
        return super()._next(request)


def with_others(server: Picky, pool: ThreadPoolExecutor, outage_wait: float = LONG) -> str:
    """The answer to what it refuses, while others ask it too."""
    endpoint, over = backend(server, outage_wait, backoff_base=1), threading.Event()

    def others() -> None:
        while not over.is_set():
            ask(endpoint)

    asking = pool.submit(others)
    try:
        return ask(endpoint, "A hard question?")
    finally:
        over.set()
        asking.result(10)


def test_where_others_are_answered_it_is_no_outage(
    pool: ThreadPoolExecutor, capsys: pytest.CaptureFixture[str]
) -> None:
    with Picky(error(500, "a defect")).running() as server, pytest.raises(EndpointDown):
        with_others(server, pool)
    assert "out of service" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_rate_limit_lets_a_request_through_later(pool: ThreadPoolExecutor) -> None:
    limit = error(429, "not so fast")
    with Picky(limit, times=3).running() as server:
        assert with_others(server, pool) == "Hello."
    with Picky(limit).running() as server, pytest.raises(RateLimited):
        with_others(server, pool, outage_wait=1)


@pytest.mark.slow
def test_a_timed_out_request_is_closed_with_its_slot(server: ChatServer) -> None:
    """A server that hangs does not gather requests."""
    endpoint = backend(server, outage_wait=0, max_retries=0, timeout=3)
    server.will_answer(reply(hold=True))
    with pytest.raises(InfrastructureFailure, match="no whole reply"):
        ask(endpoint)
    until(lambda: not [t for t in threading.enumerate() if t.name == "model-request"])


@pytest.mark.slow
def test_a_run_survives_it(server: ChatServer, tmp_path: Path) -> None:
    server.will_answer(reply(), *[DOWN] * 9, reply())
    patient = "models.frontier.retries={max_retries: 1, backoff_base: 0.01, outage_wait: 60}"
    settings = (patient, "collect.benchmark.limit=3", "runner.give_up_after=1", "runner.again=0")
    assert main(collect_from(server, tmp_path, *settings)) == 0
    rows = list(RunStore(tmp_path / "test").read_rollouts())
    assert [row.failure_kind for row in rows] == [None] * 3
    assert len(server.requests) == 3 + 9
