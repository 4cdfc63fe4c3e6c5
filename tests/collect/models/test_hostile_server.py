"""A model's server that sends what breaks readers: odd values, deep nesting, bombs, no end."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from collect.errors import EndpointDown, EndpointFailure, InvalidReply
from collect.models.base import Completion, Sampling, Usage
from collect.models.budget import Budget
from collect.models.config import AnthropicConfig, OpenAIConfig, Prices, Retries
from collect.models.endpoint import EndpointBackend
from collect.store.messages import Message
from tests.collect.models.chat_server import Answer, ChatServer, error, reply
from tests.collect.models.contexts import context

ROOT = Path(__file__).resolve().parents[3]
ONCE = Retries(max_retries=0, outage_wait=0)
DEEP = "[" * 200_000
MESSAGE = '{"role": "assistant", "content": "Hello."}'


def ask(server: ChatServer | Flood, budget: Budget | None = None, **settings: Any) -> Completion:
    fields: dict[str, Any] = {"base_url": server.url, "api_key_env": None, "retries": ONCE}
    config = OpenAIConfig(backend="openai", model="large", **(fields | settings))
    endpoint = EndpointBackend("main", config, budget or Budget(None), threading.Event())
    return endpoint.open(context()).complete([Message("user", "Hello?")], [], Sampling())


def raw(
    message: str = MESSAGE, usage: str = "null", finish: str = '"stop"', choices: str = ""
) -> Answer:
    """A completion of pieces of JSON."""
    choices = choices or f'[{{"index": 0, "message": {message}, "finish_reason": {finish}}}]'
    return Answer(body=f'{{"id": "x", "choices": {choices}, "usage": {usage}}}')


def counted(prompt: str, completion: str = "1", cached: str = "0") -> str:
    return (
        f'{{"prompt_tokens": {prompt}, "completion_tokens": {completion}, '
        f'"prompt_tokens_details": {{"cached_tokens": {cached}}}}}'
    )


@pytest.mark.parametrize("number", [str(2**63), "-1", "-1.5", "NaN", "-Infinity", '"many"', "[]",
                                    "true", "1e400", "9" * 5_000])  # fmt: skip
@pytest.mark.parametrize("field", ["prompt", "completion", "cached"])
def test_tokens_are_bounded_whole_numbers(server: ChatServer, field: str, number: str) -> None:
    server.will_answer(raw(usage=counted(**{"prompt": "1", field: number})))
    budget = Budget(1.0)
    with pytest.raises(InvalidReply):
        ask(server, budget, prices=Prices(input=1.0, output=1.0))
    assert budget.spent == 0


def test_no_usage_lowers_what_is_spent(server: ChatServer) -> None:
    """More tokens from the cache than there are would, where these are cheaper."""
    server.will_answer(raw(usage=counted("10", "0", "1000")))
    prices = Prices(input=10.0, cached_input=0.1)
    completion = ask(server, prices=prices)
    assert completion.usage == Usage(10, 0, 10)
    assert completion.dollars == pytest.approx(1e-6)


@pytest.mark.parametrize(
    "answer",
    [
        Answer(body=DEEP),
        Answer(body="[]"),
        Answer(body="9" * 5_000),
        raw(choices="{}"),
        raw(choices="5"),
        raw(choices="[5]"),
        raw(choices="[[]]"),
        raw(choices='["message"]'),
        raw(choices='[{"message": []}]'),
        raw("[]"),
        raw("5"),
        raw("null"),
        raw('[["content", "Hello."]]'),
        raw('{"content": 5}'),
        raw('{"content": {"text": "Hello."}}'),
        raw('{"tool_calls": 5}'),
        raw('{"tool_calls": "read"}'),
        raw('{"tool_calls": {"id": "1"}}'),
        raw('{"tool_calls": [5]}'),
        raw('{"tool_calls": [{"function": []}]}'),
        raw('{"tool_calls": [{"function": {"name": [], "arguments": "{}"}}]}'),
        raw('{"tool_calls": [{"id": {}, "function": {"name": "read", "arguments": "{}"}}]}'),
        raw(f'{{"tool_calls": [{{"function": {{"name": "r", "arguments": {DEEP}}}}}]}}'),
        raw(usage="5"),
        raw(usage="[]"),
        raw(usage='{"prompt_tokens": 1, "prompt_tokens_details": 5}'),
        raw(finish="[]"),
        raw(finish="{}"),
        raw(finish="5"),
    ],
    ids=lambda answer: answer.body[:120],
)
def test_what_is_no_completion_is_an_invalid_reply(server: ChatServer, answer: Answer) -> None:
    server.will_answer(answer)
    with pytest.raises(InvalidReply):
        ask(server)


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize(
    "answer",
    [
        Answer(body=DEEP),
        Answer(body="9" * 5_000),
        Answer(body='{"error": {"message": [], "code": {}}}'),
        error(0, "odd", Retry_After="Mon, 01 Jan 99999999999999999999 00:00:00 GMT"),
        error(0, "odd", Retry_After="1e999"),
        error(0, "odd", Retry_After="\xb2"),
    ],
)
def test_any_refusal_can_be_read(server: ChatServer, answer: Answer, status: int) -> None:
    server.will_answer(replace(answer, status=status))
    with pytest.raises(EndpointFailure):
        ask(server)


def test_refusals_and_cookies_without_end_are_not_kept(
    server: ChatServer, caplog: pytest.LogCaptureFixture
) -> None:
    code, cookie = "x" * 100_000, "y" * 10_000
    server.will_answer(
        *(error(500, "odd", code=f"{code}{n}" if n % 2 else f"{n}{code}") for n in range(100)),
        replace(reply("Hello."), headers={"Set-Cookie": f"a={cookie}"}),
    )
    retries = Retries(max_retries=100, backoff_base=0.001, backoff_max=0.001, outage_wait=0)
    settings = {"base_url": server.url, "api_key_env": None, "retries": retries}
    config = OpenAIConfig.model_validate({"backend": "openai", "model": "large", **settings})
    endpoint = EndpointBackend("main", config, Budget(None), threading.Event())
    for _ in range(2):
        endpoint.open(context()).complete([Message("user", "Hello?")], [], Sampling())
    assert 1 < len(caplog.records) <= 30
    assert sum(len(str(kept)) for kept in endpoint._told) < 30_000
    assert server.cookies[-2:] == [None, None]


def test_a_redirect_to_no_address_is_an_invalid_reply(server: ChatServer) -> None:
    server.will_answer(Answer(307, "", {"Location": "http://\x01"}))
    with pytest.raises(InvalidReply, match="to no address"):
        ask(server)


def test_what_can_not_be_sent_back_is_an_invalid_reply(server: ChatServer) -> None:
    thought = '{"type": "thinking", "thinking": "x", "signature": %s}'
    # Each is read in a thread with fewer frames than it is sent with.
    deep = [f"{'[' * n}{']' * n}" for n in range(940, 1000, 4)]
    said = [_sent_back(server, thought % odd) for odd in ("1e999", *deep)]
    assert said[0]
    if sys.version_info < (3, 12):
        assert set(said[1:]) == {False, True}


def _sent_back(server: ChatServer, thought: str) -> bool:
    """Whether it is told that a conversation with this block can't be sent."""
    endpoint = EndpointBackend(
        "main",
        AnthropicConfig(
            backend="anthropic", model="large", base_url=server.url, api_key_env=None, retries=ONCE
        ),
        Budget(None),
        threading.Event(),
    )
    said = Message("assistant", "", provider_items=f'{{"anthropic": [{thought}]}}')
    conversation = [Message("user", "?"), said]
    with ThreadPoolExecutor(1) as pool, pytest.raises(InvalidReply) as raised:
        pool.submit(endpoint.open(context()).complete, conversation, [], Sampling()).result()
    return "can't be sent" in str(raised.value)


def test_deep_nesting_in_texts_is_text(server: ChatServer) -> None:
    call = {"id": "c", "function": {"name": "read", "arguments": DEEP}}
    server.will_answer(reply(DEEP, tool_calls=[call], reasoning=DEEP))
    message = ask(server).message
    assert (message.content, message.reasoning) == (DEEP, DEEP)
    assert message.tool_calls[0].arguments == DEEP


def test_half_characters_can_be_stored(server: ChatServer) -> None:
    call = {"id": "\ud83d", "function": {"name": "\ud83d", "arguments": "\ud83d"}}
    server.will_answer(reply("\ud83d", tool_calls=[call]))
    assert ask(server).message.content == "\ufffd"
    server.will_answer(reply("Hello.", finish_reason="\ud83d"))
    with pytest.raises(InvalidReply, match="its finish reason is '\ufffd'"):
        ask(server)


class Flood:
    """A server whose replies are bytes without end, or with one that is far."""

    def __init__(self, pieces: Callable[[], Iterator[bytes]], **headers: str) -> None:
        self.closed = threading.Event()
        """The client has closed the connection."""
        flood = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"] or 0))
                self.do_GET()

            def do_GET(self) -> None:
                self.send_response(200)
                for name, value in headers.items():
                    self.send_header(name.replace("_", "-"), value)
                self.end_headers()
                try:
                    for piece in pieces():
                        self.wfile.write(piece)
                except ConnectionError:
                    flood.closed.set()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Tests read their own output."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    @contextmanager
    def running(self) -> Iterator[Flood]:
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield self
        finally:
            self._http.shutdown()
            self._http.server_close()


@cache
def bomb(start: bytes) -> bytes:
    """200 MB in a small fraction of that."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31 if start else 15)
    blanks = b" " * 10_000_000
    pieces = [packer.compress(start), *(packer.compress(blanks) for _ in range(20))]
    return b"".join([*pieces, packer.flush()])


def drip() -> Iterator[bytes]:
    while True:
        time.sleep(0.02)
        yield b"["


def flood() -> Iterator[bytes]:
    while True:
        yield b"[" * 65_536


PEAK = """
import resource, sys, threading
from collect.errors import RolloutError
from collect.store.messages import Message
from collect.models.base import Sampling
from collect.models.budget import Budget
from collect.models.config import OpenAIConfig, Retries
from collect.models.endpoint import EndpointBackend
from tests.collect.models.contexts import context

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

config = OpenAIConfig(
    backend="openai", model="m", base_url=sys.argv[1], api_key_env=None, timeout=30,
    retries=Retries(max_retries=0, outage_wait=0),
)
endpoint = EndpointBackend("main", config, Budget(None), threading.Event())
model, before = endpoint.open(context()), peak()
try:
    model.complete([Message("user", "?")], [], Sampling())
except RolloutError as error:
    print(type(error).__name__, error)
print(peak() - before)
"""


@pytest.mark.parametrize(
    ("sent", "headers", "said"),
    [
        (b'{"choices": [', {"Content_Encoding": "gzip"}, "not asked for: 'gzip'"),
        pytest.param(
            b"",
            {"Content_Type": "application/json; charset=zlib"},
            "no chat completion",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["encoding", "charset"],
)
def test_a_bomb_takes_little_memory(sent: bytes, headers: dict[str, str], said: str) -> None:
    packed = bomb(sent)
    with Flood(lambda: iter([packed]), **headers).running() as server:
        command = [sys.executable, "-c", PEAK, server.url]
        told = subprocess.check_output(command, text=True, timeout=120, cwd=ROOT)
    asked, megabytes = told.splitlines()
    assert asked.startswith("InvalidReply")
    assert said in asked
    assert int(megabytes) < 100, told


@pytest.mark.parametrize("encoding", ["br", "gzip", "zstd"])
def test_no_compression_is_read(encoding: str) -> None:
    reply_to_all = Flood(lambda: iter([b"{}"]), Content_Encoding=encoding)
    with (
        reply_to_all.running() as server,
        pytest.raises(InvalidReply, match=f"not asked for: '{encoding}'"),
    ):
        ask(server)


@pytest.mark.parametrize("pieces", [drip, flood])
def test_an_endless_reply_is_closed_at_its_time_out(
    pieces: Callable[[], Iterator[bytes]],
) -> None:
    too_large = pieces is flood
    with Flood(pieces).running() as server:
        with pytest.raises(InvalidReply if too_large else EndpointDown):
            ask(server, timeout=0.5)
        assert server.closed.wait(2), "nothing is read any more"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_request_does_not_follow_to_another_host(
    server: ChatServer, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_KEY", "sk-secret-of-mine")
    with ChatServer().running() as other:
        there = {"Location": f"{other.url}/chat/completions"}
        server.will_answer(Answer(status, "", there))
        with pytest.raises(EndpointFailure) as raised:
            ask(server, api_key_env="THE_KEY")
        assert server.keys == ["Bearer sk-secret-of-mine"]
        assert (other.keys, other.requests) == ([], [])
    ours, theirs = (each.url.removesuffix("/v1") for each in (server, other))
    assert f"HTTP {status}: {ours} sends requests on to {theirs}, which" in str(raised.value)
    assert "What to do: name that server in `base_url`" in str(raised.value)


def test_a_request_follows_to_the_same_server(server: ChatServer) -> None:
    server.will_answer(Answer(308, "", {"Location": "/v1/chat/completions?moved"}), reply("Hello."))
    assert ask(server).message.content == "Hello."


def test_half_a_key_is_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broken head says is quoted, and cut."""
    key = "sk-" + "0123456789" * 5
    monkeypatch.setenv("THE_KEY", key)
    config = OpenAIConfig(backend="openai", model="large", api_key_env="THE_KEY", retries=ONCE)
    for before in range(500, 600, 20):
        with broken_head("x" * before + key) as url:
            endpoint = EndpointBackend(
                "main", config.model_copy(update={"base_url": url}), Budget(None), threading.Event()
            )
            with pytest.raises(EndpointFailure) as raised:
                endpoint.open(context()).complete([Message("user", "Hello?")], [], Sampling())
        assert "xxxxx" in str(raised.value)
        assert key[:8] not in str(raised.value)


@contextmanager
def broken_head(line: str) -> Iterator[str]:
    """A server whose replies have a line that is no header."""

    def serve() -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(f"HTTP/1.1 200 OK\r\n{line}\r\n\r\n".encode())

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        thread.join()
