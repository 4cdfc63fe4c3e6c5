"""The endpoint backend against a real HTTP server."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from collect.errors import (
    BudgetExhausted,
    ConfigError,
    EndpointDown,
    InfrastructureFailure,
    ModelFailure,
    RolloutStopped,
)
from collect.models.base import Completion, Sampling, Usage
from collect.models.budget import Budget
from collect.models.config import OpenAIConfig, Prices, Retries
from collect.models.endpoint import EndpointBackend
from collect.models.endpoint_client import is_loopback
from collect.models.refusals import read_refusal
from collect.store.messages import Message, ToolCall
from tests.collect.models.chat_server import Answer, ChatServer, error, reply
from tests.collect.models.contexts import context

KEY = "sk-secret-of-the-test"
TOOL = {
    "type": "function",
    "function": {"name": "read", "description": "", "parameters": {"type": "object"}},
}
FAST = Retries(max_retries=2, backoff_base=0.001, outage_wait=0)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_KEY", KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        yield running


def backend(
    server: ChatServer,
    budget: Budget | None = None,
    stop: threading.Event | None = None,
    **settings: Any,
) -> EndpointBackend:
    fields: dict[str, Any] = {"base_url": server.url, "api_key_env": "TEST_KEY", "retries": FAST}
    fields |= settings
    config = OpenAIConfig(backend="openai", model="large", **fields)
    return EndpointBackend("main", config, budget or Budget(None), stop or threading.Event())


def ask(
    endpoint: EndpointBackend, *messages: Message, sampling: Sampling | None = None
) -> Completion:
    conversation = messages or (Message("user", "Hello?"),)
    model = endpoint.open(context())
    return model.complete(conversation, [TOOL], sampling or Sampling())


def test_trouble_is_told_at_its_first_request_and_once(
    server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    down, limited = error(503, "overloaded"), error(429, "slow down", Retry_After="0.01")
    server.will_answer(*[down] * 2, reply(), down, limited, reply(), error(401, KEY), reply())
    endpoint = backend(server)
    ask(endpoint)
    assert capsys.readouterr().err == (
        f"stepinto: main (model large at {server.url}/): HTTP 503: overloaded; such requests are "
        "sent again (retries)\n"
    )
    ask(endpoint)
    (line,) = capsys.readouterr().err.splitlines()
    assert "HTTP 429: slow down; such" in line
    with pytest.raises(InfrastructureFailure):
        ask(endpoint)
    assert not capsys.readouterr().err, "it is not sent again, and told as a failure"


def test_a_reply_is_kept_as_it_came(server: ChatServer) -> None:
    raw = '{"path" :"a.py",\n "first":1.0'
    calls = [
        {"id": "abc", "type": "function", "function": {"name": "read", "arguments": raw}},
        {"type": "function", "function": {"name": "read", "arguments": {"path": "b.py"}}},
    ]
    usage = {
        "prompt_tokens": 1000,
        "completion_tokens": 50,
        "prompt_tokens_details": {"cached_tokens": 800},
    }
    server.will_answer(
        reply(
            None,
            tool_calls=calls,
            finish_reason="tool_calls",
            usage=usage,
            reasoning_content="I think.",
            annotations=[{"new": "field"}],
        )
    )
    prices = Prices(input=2.0, cached_input=0.5, output=10.0)
    budget = Budget(1.0)
    completion = ask(backend(server, budget, prices=prices))
    assert completion.message == Message(
        role="assistant",
        reasoning="I think.",
        tool_calls=(
            ToolCall("abc", "read", raw),
            ToolCall("call_1_1", "read", '{"path": "b.py"}'),
        ),
    )
    assert completion.usage == Usage(1000, 50, 800)
    assert completion.finish_reason == "tool_calls"
    assert completion.dollars == pytest.approx(0.0004 + 0.0004 + 0.0005)
    assert budget.spent == completion.dollars
    assert completion.seconds > 0


THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "I think."}]}


@pytest.mark.parametrize(
    "fields",
    [
        {"content": [THINKING, {"type": "text", "text": "It is 7."}]},
        {"content": [{"type": "thinking", "thinking": "I think."}, "It is 7."]},
        {"content": [{"type": "reasoning", "text": "I think."}, {"text": "It is 7."}]},
        {"content": [{"type": "text", "text": "I think.", "thought": True}, {"text": "It is 7."}]},
        {"content": "It is 7.", "reasoning": "I think."},
        {"content": "It is 7.", "reasoning_content": [THINKING]},
        {"content": "It is 7.", "reasoning_details": [
            {"type": "reasoning.summary", "summary": "I think."},
            {"type": "reasoning.encrypted", "data": "c2VjcmV0"},
        ]},
        {"content": "<think>\nI think.\n</think>\n\nIt is 7."},
    ],
)  # fmt: skip
def test_reasoning_is_told_from_what_is_said(server: ChatServer, fields: dict[str, Any]) -> None:
    server.will_answer(reply(**fields))
    message = ask(backend(server)).message
    assert (message.thought, message.said) == ("I think.", "It is 7.")


def test_the_request_says_what_the_config_says(server: ChatServer) -> None:
    endpoint = backend(
        server,
        parallel_tool_calls=False,
        tool_choice="auto",
        max_tokens_field="max_tokens",
        extra_body={"top_k": 20},
    )
    ask(endpoint, sampling=Sampling(temperature=0.5, max_tokens=64, seed=3))
    assert server.requests == [
        {
            "model": "large",
            "messages": [{"role": "user", "content": "Hello?"}],
            "temperature": 0.5,
            "seed": 3,
            "max_tokens": 64,
            "tools": [TOOL],
            "tool_choice": "auto",
            "parallel_tool_calls": False,
            "top_k": 20,
        }
    ]
    assert server.keys == [f"Bearer {KEY}"]


def test_an_answer_that_is_forced_allows_no_calls(server: ChatServer) -> None:
    ask(backend(server, tool_choice="auto"), sampling=Sampling(tool_choice="none"))
    assert server.requests[0]["tool_choice"] == "none"
    assert server.requests[0]["tools"] == [TOOL]


def test_malformed_arguments_are_sent_back_as_an_object(server: ChatServer) -> None:
    asked = Message(
        "assistant",
        reasoning="hm",
        tool_calls=(
            ToolCall("1", "read", '{"path": '),
            ToolCall("2", "read", '{"a":1}'),
            ToolCall("3", "read", ""),
        ),
    )
    answers = [Message("tool", "?", tool_call_id=each, name="read") for each in "123"]
    endpoint = backend(server, reasoning_field="reasoning_content")
    ask(endpoint, Message("user", "?"), asked, *answers)
    sent = server.requests[0]["messages"][1]
    arguments = [call["function"]["arguments"] for call in sent["tool_calls"]]
    assert arguments == [json.dumps({"malformed_arguments": '{"path": '}), '{"a":1}', "{}"]
    assert sent["reasoning_content"] == "hm"


@pytest.mark.parametrize(
    "trouble",
    [
        error(429, "slow down", Retry_After="0"),
        error(500, "oops"),
        error(503, "starting"),
        Answer(502, "<html>Bad gateway</html>", {"Content-Type": "text/html"}),
        Answer(drop=True),
        Answer(body="not json"),
        Answer(body='{"choices": []}'),
        Answer(body='{"error": {"message": "upstream"}}'),
        Answer(body=""),
    ],
)
def test_trouble_that_passes_is_sat_out(server: ChatServer, trouble: Answer) -> None:
    server.will_answer(trouble, trouble, reply("At last."))
    assert ask(backend(server)).message.content == "At last."
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (error(500, f"key {KEY} broke"), r"after 3 requests: HTTP 500: key \[key\] broke"),
        (error(500, "half \ud83d"), "HTTP 500: half \ufffd"),
        (error(429, "slow down"), "lower `concurrency`"),
        (Answer(drop=True), "no answer"),
        (Answer(body="x" * 5000), r"no chat completion: x{600} \.\.\."),
    ],
)
def test_trouble_that_stays_is_the_infrastructures(
    server: ChatServer, trouble: Answer, said: str
) -> None:
    server.will_answer(trouble)
    with pytest.raises(InfrastructureFailure, match=said) as failure:
        ask(backend(server))
    assert server.url in str(failure.value)
    assert "model large" in str(failure.value)
    assert KEY not in str(failure.value)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (error(401, "bad key"), "api_key_env"),
        (error(403, "not yours"), "HTTP 403: not yours"),
        (error(404, "no model large"), "check `model` and `base_url`"),
        (error(400, "unknown field top_k"), "unknown field top_k.*extra_body"),
        (error(429, "no credit", "insufficient_quota"), "no credit"),
        (error(429, "tomorrow", Retry_After="9000"), "asks to wait 9000 s"),
        (Answer(400, '{"object":"error","message":"plain vllm"}'), "HTTP 400: plain vllm"),
        (Answer(400, '{"detail":[{"loc":"body"}]}'), "loc"),
    ],
)
def test_what_cannot_pass_fails_at_once(server: ChatServer, answer: Answer, said: str) -> None:
    server.will_answer(answer)
    with pytest.raises(InfrastructureFailure, match=said):
        ask(backend(server))
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (error(400, "too many", "context_length_exceeded"), "context is too long"),
        (
            error(400, "This model's maximum context length is 2048 tokens. However, you ..."),
            "context is too long.*2048",
        ),
        (error(400, "prompt is too long: 213423 tokens > 200000 maximum"), "context is too long"),
        (error(413, "The decoder prompt (length 9) is longer than the maximum model length of 8"),
         "context is too long"),
        (error(400, "flagged", "content_policy_violation"), "content was refused"),
        (reply("", finish_reason="content_filter"), "content_filter"),
    ],
)  # fmt: skip
def test_what_the_model_cannot_take_is_the_models(
    server: ChatServer, answer: Answer, said: str
) -> None:
    server.will_answer(answer)
    with pytest.raises(ModelFailure, match=said):
        ask(backend(server))
    assert len(server.requests) == 1


def test_a_broken_tool_call_object_is_the_servers(server: ChatServer) -> None:
    server.will_answer(reply(None, tool_calls=[{"id": "1", "custom": {}}]))
    with pytest.raises(InfrastructureFailure, match="no function call"):
        ask(backend(server))


def test_a_silent_server_times_out(server: ChatServer) -> None:
    server.will_answer(reply(hold=True))
    with pytest.raises(EndpointDown, match=r"no whole reply within 0\.1 s"):
        ask(backend(server, timeout=0.1, retries=Retries(max_retries=1, backoff_base=0)))


@pytest.mark.slow
def test_blanks_that_keep_a_connection_are_no_reply(server: ChatServer) -> None:
    blanks = Answer(body=" " * 400, slowly=True)
    server.will_answer(blanks, reply("At last."))
    endpoint = backend(server, timeout=2, concurrency=1)
    assert ask(endpoint).message.content == "At last.", "its slot was given back"
    server.will_answer(blanks)
    hasty = backend(server, timeout=0.3, retries=Retries(max_retries=0, outage_wait=0))
    with pytest.raises(EndpointDown, match=r"no whole reply within 0\.3 s"):
        ask(hasty)


def test_nobody_listens() -> None:
    server = ChatServer()
    with server.running():
        pass
    with pytest.raises(InfrastructureFailure, match="check that the server runs"):
        ask(backend(server))


def test_a_password_in_the_address_is_not_told() -> None:
    server = ChatServer()
    with server.running():
        pass
    address = server.url.replace("http://", "http://me:hidden@")
    with pytest.raises(InfrastructureFailure) as failed:
        ask(backend(server, base_url=address))
    assert server.url in str(failed.value)
    assert "hidden" not in str(failed.value)


def test_no_more_requests_at_once_than_allowed(server: ChatServer) -> None:
    server.will_answer(reply(hold=True))
    endpoint = backend(server, concurrency=2)
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(ask, endpoint) for _ in range(6)]
        assert server.arrived.acquire(timeout=10)
        assert server.arrived.acquire(timeout=10)
        assert not server.arrived.acquire(timeout=0.1)
        server.released.set()
        assert all(one.result(10).message.content == "Hello." for one in asked)
    assert server.most_at_once == 2
    assert len(server.requests) == 6


def test_the_budget_is_shared_and_ends_requests(server: ChatServer) -> None:
    budget = Budget(0.00025)
    prices = Prices(input=1.0)  # a request of 100 tokens costs $0.0001
    first, second = backend(server, budget, prices=prices), backend(server, budget, prices=prices)
    for endpoint in (first, second, first):
        ask(endpoint)
    with pytest.raises(BudgetExhausted, match="is spent"):
        ask(second)
    assert len(server.requests) == 3
    assert budget.spent == pytest.approx(0.0003)
    assert ask(backend(server, budget)).dollars == 0


def test_the_time_of_a_machine_costs(server: ChatServer) -> None:
    """At a dollar a second; the request that is sent again costs too, and needs no usage."""
    server.will_answer(error(503, "busy"), reply(usage={"none": 0}))
    budget = Budget(100.0)
    started = time.monotonic()
    completion = ask(backend(server, budget, prices=Prices(gpu_dollars_per_hour=3600)))
    assert 0 < completion.dollars == pytest.approx(budget.spent)
    assert completion.dollars <= time.monotonic() - started


def test_prices_need_usage(server: ChatServer) -> None:
    server.will_answer(reply(usage={"none": 0}))
    assert ask(backend(server)).usage == Usage()
    with pytest.raises(InfrastructureFailure, match="no token usage"):
        ask(backend(server, prices=Prices(output=1.0)))


@pytest.mark.parametrize("answer", [reply(hold=True), error(429, "wait", Retry_After="200")])
def test_stopping_ends_a_request_and_a_wait(server: ChatServer, answer: Answer) -> None:
    server.will_answer(answer)
    stop = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        endpoint = backend(server, stop=stop, concurrency=1)
        asked = [pool.submit(ask, endpoint) for _ in range(2)]
        assert server.arrived.acquire(timeout=10)
        stop.set()
        for one in asked:
            with pytest.raises(RolloutStopped):
                one.result(10)


def test_the_key_is_named_and_must_be_there(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEST_KEY")
    with pytest.raises(ConfigError, match="TEST_KEY holds no key"):
        backend(server)
    assert ask(backend(server, api_key_env=None)).message.content == "Hello."
    assert server.keys == ["Bearer none"]


def test_the_address_can_come_from_the_environment(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert ask(backend(server, base_url=None)).message.content == "Hello."
    with pytest.raises(ConfigError, match="localhost"):
        backend(server, base_url="localhost:8000")


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({"retry-after": "2.5"}, 2.5),
        ({"retry-after": "soon"}, 0),
        ({"retry-after": "nan"}, 0),
        ({}, 0),
    ],
)
def test_retry_after_is_read_as_a_number(given: dict[str, str], seconds: float) -> None:
    assert read_refusal(503, "", given).retry_after == seconds


def test_calls_in_the_text_are_read_where_the_config_says_so(server: ChatServer) -> None:
    text = 'I read it.\n```json\n{"name": "read", "arguments": {"path": "a.py"}}\n```'
    server.will_answer(reply(text))
    plain = ask(backend(server))
    assert (plain.message.content, plain.message.tool_calls, plain.text_calls) == (text, (), 0)
    read = ask(backend(server, text_calls=True))
    assert (read.message.content, read.text_calls) == ("I read it.", 1)
    assert read.message.tool_calls == (ToolCall("call_1_0", "read", '{"path": "a.py"}'),)


PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:9", "ftp://x", "http://[::1"])
def test_a_server_of_this_machine_is_asked_without_a_proxy(
    server: ChatServer, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_PROXY")
    for name in PROXIES:
        monkeypatch.setenv(name, proxy)
    server.will_answer(reply("Yes."))
    assert ask(backend(server)).message.content == "Yes."


@pytest.mark.parametrize("proxy", ["ftp://x", "http://[::1"])
def test_a_proxy_that_can_not_be_used_is_named(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.setenv(name, proxy)
    config = OpenAIConfig(
        backend="openai", model="large", base_url="http://192.0.2.1/v1", api_key_env="TEST_KEY"
    )
    with pytest.raises(ConfigError, match=r"proxy can't be used.*HTTP_PROXY"):
        EndpointBackend("large", config, Budget(None), threading.Event())


@pytest.mark.parametrize(
    ("host", "here"),
    [
        *(("127.0.0.1", True), ("127.0.0.2", True), ("::1", True), ("localhost", True)),
        *(("10.0.0.1", False), ("localhost.example.com", False), ("", False)),
    ],
)
def test_this_machine(host: str, here: bool) -> None:
    assert is_loopback(host) is here
