"""Replies that come as streams: joined, they are what the server would have sent at once."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from collect.models.base import Completion, Sampling, Usage
from collect.models.budget import Budget
from collect.models.config import ModelConfig
from collect.models.event_streams import is_stream, joined
from collect.rollouts.executor import open_model
from collect.store.messages import Message, ReplyTokens, ToolCall
from tests.collect.models.chat_server import Answer, ChatServer, reply
from tests.collect.models.contexts import context

TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        yield running


def stream(*events: dict[str, Any], end: str = "data: [DONE]\n\n") -> Answer:
    body = "".join(f"event: x\ndata: {json.dumps(event)}\n\n" for event in events)
    return Answer(body=f": comment\n\n{body}{end}", headers={"Content-Type": "text/event-stream"})


def chunk(finish: str | None = None, /, **delta: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def piece(arguments: str, **call: Any) -> dict[str, Any]:
    name = {"name": call.pop("name")} if "name" in call else {}
    return chunk(tool_calls=[{**call, "function": {**name, "arguments": arguments}}])


def ask(server: ChatServer, backend: str = "openai", **settings: Any) -> Completion:
    url = server.url.removesuffix("/v1") if backend == "anthropic" else server.url
    given: dict[str, Any] = {
        "backend": backend,
        "model": "m",
        "base_url": url,
        "api_key_env": None,
        "stream": True,
    }
    given["retries"] = {"max_retries": 1, "backoff_base": 0.001, "outage_wait": 0}
    config = TypeAdapter[Any](ModelConfig).validate_python({**given, **settings})
    opened = open_model("main", config, Budget(None), threading.Event(), Path())
    return opened.open(context()).complete([Message("user", "?")], [TOOL], Sampling())


USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}}


def test_a_chat_completion(server: ChatServer) -> None:
    server.will_answer(
        stream(
            chunk(role="assistant", content=""),
            *(chunk(reasoning_content=text) for text in ("Hm", "m.")),
            *(chunk(content=text) for text in ("I ", "read ", "é.")),
            piece("", index=0, id="a", type="function", name="read"),
            piece('{"path"', index=0),
            piece("", index=1, id="b", type="function", name="read"),
            piece(': "a.py"}', index=0),
            piece("{}", index=1),
            chunk("tool_calls"),
            USAGE,
        )
    )
    completion = ask(server, extra_body={"top_k": 1})
    assert completion.message == Message(
        "assistant",
        "I read é.",
        "Hmm.",
        (ToolCall("a", "read", '{"path": "a.py"}'), ToolCall("b", "read", "{}")),
    )
    assert completion.usage == Usage(7, 5)
    assert completion.finish_reason == "tool_calls"
    [request] = server.requests
    assert (request["stream"], request["top_k"]) == (True, 1)
    assert request["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("number", [{"index": 0}, {}], ids=["0", "none"])
def test_calls_that_are_not_numbered(server: ChatServer, number: dict[str, int]) -> None:
    """Some servers send each call whole, and number all with 0; some repeat the id."""
    server.will_answer(
        stream(
            piece('{"path":', **number, id="a", name="read"),
            piece(' "a.py"}', **number, id="a", name="read"),
            piece("{}", **number, id="b", name="list"),
            chunk("tool_calls"),
        )
    )
    assert ask(server).message.tool_calls == (
        ToolCall("a", "read", '{"path": "a.py"}'),
        ToolCall("b", "list", "{}"),
    )


@pytest.mark.parametrize("number", [{"index": 0}, {}], ids=["0", "none"])
def test_pieces_of_a_call_with_an_id_each(server: ChatServer, number: dict[str, int]) -> None:
    """Some versions of vLLM, and gateways, make an id for each piece."""
    server.will_answer(
        stream(
            piece("", **number, id="a1", name="read"),
            piece('{"path":', **number, id="a2"),
            piece(' "a.py"}', **number, id="a3", name=None),
            piece("{}", **number, id="b1", name="list"),
            chunk("tool_calls"),
        )
    )
    assert ask(server).message.tool_calls == (
        ToolCall("a1", "read", '{"path": "a.py"}'),
        ToolCall("b1", "list", "{}"),
    )


def thinking(text: str) -> dict[str, Any]:
    return {"type": "thinking", "thinking": [{"type": "text", "text": text}]}


def test_thinking_in_parts_before_a_text(server: ChatServer) -> None:
    """As Mistral's models stream it."""
    server.will_answer(
        stream(
            chunk(role="assistant", content=""),
            chunk(content=[thinking("Oka")]),
            chunk(content=[thinking("y, a.py.")]),
            chunk(content="I "),
            chunk(content="read."),
            chunk("stop"),
        ),
        stream(
            chunk(content="I "),
            chunk(content=[{"type": "text", "text": "read"}, {"type": "text", "text": "."}]),
            chunk("stop"),
        ),
        stream(
            chunk(thinking="Okay, "),
            chunk(thinking="a.py."),
            chunk(content="I read."),
            chunk("stop"),
        ),
    )
    whole = Message("assistant", "I read.", "Okay, a.py.")
    assert replace(ask(server).message, provider_items=None) == whole
    assert ask(server).message == Message("assistant", "I read.")
    assert replace(ask(server).message, provider_items=None) == whole


def test_reasoning_details_are_joined_by_type_and_index(server: ChatServer) -> None:
    """As OpenRouter streams them; it wants them back whole."""
    text = {"type": "reasoning.text", "index": 0, "format": "x"}
    sealed = {"type": "reasoning.encrypted", "index": 1, "data": "b3Bh"}
    server.will_answer(
        stream(
            chunk(reasoning_details=[text | {"text": "Hm", "signature": None}]),
            chunk(reasoning_details=[text | {"text": "m."}]),
            chunk(reasoning_details=[text | {"signature": "c2ln"}]),
            chunk(reasoning_details=[sealed]),
            chunk(reasoning_details=[sealed | {"data": "cXVl"}]),
            chunk("stop", content="Yes."),
        )
    )
    message = ask(server).message
    assert message.reasoning == "Hmm."
    assert json.loads(message.provider_items or "")["chat"]["message"]["reasoning_details"] == [
        text | {"text": "Hmm.", "signature": "c2ln"},
        sealed,
        sealed | {"data": "cXVl"},
    ]


def test_tokens_and_log_probabilities(server: ChatServer) -> None:
    def sampled(token: int, probability: float, text: str) -> dict[str, Any]:
        made = chunk(content=text)
        facts = {"token_ids": [token], "logprobs": {"content": [{"logprob": probability}]}}
        made["choices"][0] |= facts
        return made

    first = chunk(role="assistant") | {"prompt_token_ids": [1, 2]}
    server.will_answer(stream(first, sampled(3, -0.5, "A"), sampled(4, -1, "b"), chunk("stop")))
    completion = ask(server, logprobs=True)
    assert completion.message.content == "Ab"
    assert completion.tokens == ReplyTokens((1, 2), (3, 4), (-0.5, -1.0))


def test_a_message_of_anthropics(server: ChatServer) -> None:
    def delta(index: int, kind: str, **fields: str) -> dict[str, Any]:
        made = {"type": "content_block_delta", "index": index}
        return made | {"delta": {"type": kind, **fields}}

    def start(index: int, **block: Any) -> dict[str, Any]:
        return {"type": "content_block_start", "index": index, "content_block": block}

    server.will_answer(
        stream(
            {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 7}}},
            start(0, type="thinking", thinking="", signature=""),
            delta(0, "thinking_delta", thinking="Hm"),
            delta(0, "thinking_delta", thinking="m."),
            delta(0, "signature_delta", signature="c2ln"),
            {"type": "ping"},
            start(1, type="text", text=""),
            delta(1, "text_delta", text="I read."),
            start(2, type="tool_use", id="t", name="read", input={}),
            delta(2, "input_json_delta", partial_json='{"path": '),
            delta(2, "input_json_delta", partial_json='"a.py"}'),
            {
                "type": "message_delta",
                "delta": {"stop_reason": "tool_use"},
                "usage": {"output_tokens": 5},
            },
            {"type": "message_stop"},
            end="",
        )
    )
    completion = ask(server, "anthropic")
    message = completion.message
    assert (message.content, message.reasoning) == ("I read.", "Hmm.")
    assert message.tool_calls == (ToolCall("t", "read", '{"path": "a.py"}'),)
    assert '"signature": "c2ln"' in (message.provider_items or "")
    assert (completion.usage, completion.finish_reason) == (Usage(7, 5), "tool_calls")
    assert server.requests[0]["stream"] is True


@pytest.mark.parametrize("written", ['{"path": "a', '{"path":"a.py","path":"b.py"}', "[]"])
def test_what_a_model_wrote_for_messages_is_kept(server: ChatServer, written: str) -> None:
    block = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
    pieces = [{"type": "input_json_delta", "partial_json": text} for text in ("", written)]
    server.will_answer(
        stream(
            STARTED,
            {"type": "content_block_start", "index": 0, "content_block": block},
            *({"type": "content_block_delta", "index": 0, "delta": piece} for piece in pieces),
            {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}},
            {"type": "message_stop"},
            end="",
        )
    )
    assert ask(server, "anthropic").message.tool_calls == (ToolCall("t", "read", written),)


@pytest.mark.parametrize("output", [True, False])
def test_a_response(server: ChatServer, output: bool) -> None:
    call = {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"}
    whole: dict[str, Any] = {"status": "completed", "output": [call] if output else []}
    whole["usage"] = {"input_tokens": 7, "output_tokens": 5}
    server.will_answer(
        stream(
            {"type": "response.created", "response": {"status": "in_progress", "output": []}},
            {"type": "response.output_item.done", "output_index": 0, "item": call},
            {"type": "response.completed", "response": whole},
            end="",
        )
    )
    completion = ask(server, "responses")
    assert completion.message.tool_calls == (ToolCall("c", "read", "{}"),)
    assert completion.usage == Usage(7, 5)


FAILED = {"type": "response.failed", "response": {"error": {"code": "server_error"}}}
STARTED = {"type": "message_start", "message": {"usage": {"input_tokens": 7}}}


@pytest.mark.parametrize(
    ("backend", "trouble"),
    [
        ("openai", stream(chunk(content="I "), end="")),
        ("openai", stream(chunk(content="I "), {"error": {"code": 502, "message": "gone"}})),
        ("openai", stream(chunk("error", content="I "))),
        ("openai", stream({"choices": [5]})),
        ("openai", stream(piece("{}", index=[]))),
        ("openai", stream(end="")),
        ("anthropic", stream(STARTED, end="")),
        ("anthropic", stream(STARTED, {"type": "error", "error": {"type": "overloaded_error"}})),
        ("anthropic", stream(STARTED, {"type": "content_block_delta"}, {"type": "message_stop"})),
        ("responses", stream({"type": "response.created", "response": {}}, end="")),
        ("responses", stream(FAILED, end="")),
        ("responses", stream({"type": "error", "error": {"message": "no"}}, end="")),
    ],
)
def test_a_stream_that_is_no_reply_is_asked_for_again(
    server: ChatServer, backend: str, trouble: Answer
) -> None:
    whole = {
        "openai": stream(chunk(content="Yes."), chunk("stop")),
        "anthropic": stream(
            STARTED,
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": "Yes."},
            },
            {"type": "message_stop"},
        ),
        "responses": stream(
            {
                "type": "response.completed",
                "response": {
                    "output": [
                        {"type": "message", "content": [{"type": "output_text", "text": "Yes."}]}
                    ]
                },
            }
        ),
    }
    server.will_answer(trouble, whole[backend])
    assert ask(server, backend).message.content == "Yes."
    assert len(server.requests) == 2


def test_a_server_that_streams_unasked_and_one_that_does_not(server: ChatServer) -> None:
    server.will_answer(stream(chunk(content="Yes."), chunk("stop")), reply("No."))
    assert ask(server, stream=False).message.content == "Yes."
    assert ask(server).message.content == "No."


def test_a_long_stream_is_joined_in_seconds() -> None:
    pieces = "".join(f"data: {json.dumps(chunk(content='x', reasoning='y'))}\n\n" * 100_000)
    began = time.process_time()
    message = joined(f"{pieces}data: [DONE]")["choices"][0]["message"]
    assert time.process_time() - began < 20
    assert (message["content"], message["reasoning"]) == ("x" * 100_000, "y" * 100_000)


def test_json_is_no_stream() -> None:
    assert not is_stream('{"data": 1}')
    assert is_stream("\r\ndata: {}")
