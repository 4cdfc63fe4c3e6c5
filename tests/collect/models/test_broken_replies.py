"""Replies that are none, and requests that a server answers in its own way: what is asked again."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from collect.errors import EndpointDown, EndpointFailure, InvalidReply, RequestRefused
from collect.models.base import Completion, Sampling, Usage
from collect.models.budget import Budget
from collect.models.config import OpenAIConfig, Prices, Retries
from collect.models.endpoint import EndpointBackend
from collect.models.finish_reasons import finish_reason
from collect.store.messages import Message
from tests.collect.models.chat_server import Answer, ChatServer, error, reply
from tests.collect.models.contexts import context

TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
FAST = Retries(max_retries=2, backoff_base=0.001, outage_wait=0)
NO_TOKENS = {"prompt_tokens": 100, "completion_tokens": 0, "total_tokens": 100}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        yield running


def backend(url: str, budget: Budget | None = None, **settings: Any) -> EndpointBackend:
    fields: dict[str, Any] = {"base_url": url, "api_key_env": None, "retries": FAST} | settings
    config = OpenAIConfig(backend="openai", model="large", **fields)
    return EndpointBackend("main", config, budget or Budget(None), threading.Event())


def ask(endpoint: EndpointBackend, **sampling: Any) -> Completion:
    model = endpoint.open(context())
    return model.complete([Message("user", "Hello?")], [TOOL], Sampling(**sampling))


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ((None, "", "stop", "STOP", "end_turn", "eos_token", "COMPLETE"), "stop"),
        (("tool_calls", "tool-calls", "tool_use", "function_call"), "tool_calls"),
        (("length", "MAX_TOKENS", "model_length", "max_output_tokens"), "length"),
        (("content_filter", "content-filter", "SAFETY", "refusal", "sensitive"), "content_filter"),
        (
            (
                *("MALFORMED_FUNCTION_CALL", "malformed_tool_use", "UNEXPECTED_TOOL_CALL"),
                "function_call_filter: MALFORMED_FUNCTION_CALL",
            ),
            "malformed_call",
        ),
        (
            (
                *("error", "network_error", "abort", "insufficient_system_resource", "ERROR"),
                *("OTHER", "cancelled", "failed", "in_progress", "pause_turn"),
            ),
            None,
        ),
    ],
)
def test_words_for_how_a_reply_ended(words: tuple[str | None, ...], known: str | None) -> None:
    assert {finish_reason(word) for word in words} == {known}


def choice(**fields: Any) -> Answer:
    message = {"role": "assistant", "content": "Let me"}
    chosen = {"index": 0, "message": message, "finish_reason": "error", **fields}
    return Answer(body=json.dumps({"choices": [chosen]}))


@pytest.mark.parametrize(
    "broken",
    [
        reply("Let me", finish_reason="network_error"),
        reply("Let me", finish_reason="abort"),
        choice(),
        choice(error={"code": 502, "message": "Provider disconnected"}),
        reply(None, usage=NO_TOKENS),
        reply("", usage=NO_TOKENS, tool_calls=[]),
        Answer(body='{"error": {"message": "Network connection lost.", "code": 502}}'),
        Answer(body='{"choices": null, "error": "overloaded"}'),
        reply(tool_calls=[{"id": "c", "function": "ls"}]),
        Answer(body='{"choices": [{"message": {"content": {"text": "Let me"}}}]}'),
    ],
    ids=lambda answer: answer.body[:100],
)
def test_a_reply_that_broke_off_is_asked_for_again(server: ChatServer, broken: Answer) -> None:
    server.will_answer(broken, broken, reply("At last."))
    assert ask(backend(server.url)).message.content == "At last."
    server.will_answer(broken)
    with pytest.raises((InvalidReply, EndpointDown)):
        ask(backend(server.url))
    assert len(server.requests) == 6


def test_what_a_broken_reply_costs_is_counted(server: ChatServer) -> None:
    server.will_answer(reply("Let me", finish_reason="error"), reply())
    budget = Budget(1.0)
    completion = ask(backend(server.url, budget, prices=Prices(input=1.0, output=5.0)))
    assert completion.dollars == budget.spent == pytest.approx(2 * (100 + 5 * 20) / 1e6)


def test_an_empty_reply_with_a_token_is_the_models(server: ChatServer) -> None:
    server.will_answer(reply(None))
    completion = ask(backend(server.url))
    assert (completion.message.content, len(server.requests)) == ("", 1)


@pytest.mark.parametrize(
    ("count", "usage"),
    [
        (
            {"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135},
            Usage(32, 103),
        ),
        ({"prompt_tokens": 32.0, "completion_tokens": 8.5, "total_tokens": 40.5}, Usage(32, 9)),
        ({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 0}, Usage(32, 9)),
        ({"prompt_tokens": 32, "completion_tokens": None, "total_tokens": None}, Usage(32)),
    ],
)
def test_tokens_as_servers_count_them(
    server: ChatServer, count: dict[str, Any], usage: Usage
) -> None:
    server.will_answer(reply(usage=count))
    assert ask(backend(server.url)).usage == usage


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            Answer(
                400,
                json.dumps(
                    {"error": {"code": "tool_use_failed", "failed_generation": "<function=read{"}}
                ),
            ),
            "<function=read{",
        ),
        (error(500, "Failed to parse tool call arguments as JSON: unexpected end"), ""),
        (reply(None, finish_reason="MALFORMED_FUNCTION_CALL", usage=NO_TOKENS), ""),
        (choice(native_finish_reason="MALFORMED_FUNCTION_CALL"), "Let me"),
    ],
)
def test_a_call_that_the_server_can_not_read_is_a_reply(
    server: ChatServer, answer: Answer, said: str
) -> None:
    server.will_answer(answer)
    completion = ask(backend(server.url, prices=Prices(gpu_dollars_per_hour=1)))
    assert (completion.message, completion.finish_reason) == (
        Message("assistant", said),
        "malformed_call",
    )
    assert len(server.requests) == 1


def test_a_call_that_the_server_can_not_read_has_no_tokens(server: ChatServer) -> None:
    server.will_answer(error(400, "Failed to call a function.", "tool_use_failed"))
    completion = ask(backend(server.url, logprobs=True))
    assert (completion.finish_reason, completion.tokens) == ("malformed_call", None)


@pytest.mark.parametrize(
    "refusal",
    [
        error(400, "Invalid tool_choice: none. Supported values are: auto, required"),
        error(500, "Tool choice must be 'auto' when tools are provided."),
    ],
)
def test_a_server_that_can_not_forbid_calls(
    server: ChatServer, capsys: pytest.CaptureFixture[str], refusal: Answer
) -> None:
    endpoint = backend(server.url, tool_choice="auto")
    server.will_answer(refusal, reply("Yes."))
    for _ in range(2):
        assert ask(endpoint, tool_choice="none").message.content == "Yes."
    ask(endpoint)
    choices = [request.get("tool_choice") for request in server.requests]
    assert choices == ["none", None, None, "auto"]
    assert all(request["tools"] for request in server.requests)
    assert capsys.readouterr().err.count("answers are asked for without `tool_choice`") == 1


def test_a_tool_choice_of_the_config_is_not_given_up(server: ChatServer) -> None:
    server.will_answer(error(400, "Only a tool_choice of 'auto' is supported."))
    with pytest.raises(RequestRefused, match="Only a tool_choice of 'auto'"):
        ask(backend(server.url, tool_choice="required"))
    assert len(server.requests) == 1


def test_an_address_where_nothing_listens_is_told_after_two_tries() -> None:
    server = ChatServer()
    with server.running():
        pass
    retries = Retries(max_retries=6, backoff_base=0.001)
    with pytest.raises(EndpointFailure, match="after 2 requests: no answer: Connection error"):
        ask(backend(server.url, retries=retries))
    unknown = "http://no-such-host.invalid/v1"
    with pytest.raises(EndpointFailure, match="after 2 requests"):
        ask(backend(unknown, retries=retries))


def test_a_server_that_answered_and_is_gone_is_tried_on() -> None:
    server = ChatServer()
    endpoint = backend(server.url)
    server.will_answer(Answer(200, reply().body, {"Connection": "close"}))
    with server.running():
        ask(endpoint)
    with pytest.raises(EndpointDown, match="after 3 requests"):
        ask(endpoint)


def test_the_calls_may_be_in_another_choice_than_the_text(server: ChatServer) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    text = {"index": 0, "message": {"role": "assistant", "content": "I read."}}
    calls = {"index": 1, "message": {"role": "assistant", "tool_calls": [call]}}
    choices = [each | {"finish_reason": "tool_calls"} for each in (text, calls)]
    server.will_answer(Answer(200, json.dumps({"choices": choices})))
    message = ask(backend(server.url)).message
    assert (message.content, [call.name for call in message.tool_calls]) == ("I read.", ["read"])


def test_cached_tokens_have_another_name_at_deepseek(server: ChatServer) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_cache_hit_tokens": 80}
    server.will_answer(reply("Yes.", usage=usage))
    assert ask(backend(server.url)).usage == Usage(100, 10, 80)


def test_a_whole_object_may_end_as_a_stream_does(server: ChatServer) -> None:
    whole = reply("Yes.")
    server.will_answer(replace(whole, body=f"{whole.body}\n\ndata: [DONE]\n\n"))
    assert ask(backend(server.url)).message.content == "Yes."
