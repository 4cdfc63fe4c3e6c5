"""Anthropic's Messages and OpenAI's Responses against a real HTTP server: what is sent and kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from collect.errors import ContentRefused, ContextTooLong, EndpointFailure
from collect.models.base import Completion, Sampling
from collect.models.budget import Budget
from collect.models.config import ModelConfig, RemoteConfig
from collect.models.endpoint import EndpointBackend
from collect.store.messages import Message, ToolCall
from collect.store.run_store import RunStore
from stepinto import main
from tests.collect.models.chat_server import Answer, ChatServer, error, frontier_at
from tests.collect.models.contexts import context

TOOL = {
    "type": "function",
    "function": {
        "name": "bash",
        "description": "Runs.",
        "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    },
}
SYSTEM, TASK = Message("system", "You fix bugs."), Message("user", "Fix it.")
CONFIG = Path(__file__).resolve().parents[3] / "configs" / "debug2fix.yaml"


@dataclass(frozen=True)
class Vendor:
    """One API: its replies, and where it keeps what tests look at."""

    backend: str
    thinks: list[dict[str, Any]]
    """The items of a reply that thinks, speaks and calls a tool."""
    ends: list[dict[str, Any]]
    """The items of a final reply."""
    settings: Mapping[str, Any]

    def answer(self, items: list[dict[str, Any]], **fields: Any) -> Answer:
        if self.backend == "anthropic":
            called = any(item["type"] == "tool_use" for item in items)
            usage: dict[str, Any] = {
                "input_tokens": 100,
                "cache_read_input_tokens": 800,
                "cache_creation_input_tokens": 100,
                "output_tokens": 50,
            }
            reason = "tool_use" if called else "end_turn"
            body: dict[str, Any] = {
                "type": "message",
                "content": items,
                "stop_reason": reason,
                "usage": usage,
            }
        else:
            usage = {"input_tokens": 1000, "input_tokens_details": {"cached_tokens": 800}}
            body = {"object": "response", "status": "completed", "output": items}
            body["usage"] = usage | {"output_tokens": 50}
        return Answer(body=json.dumps({**body, "model": "large-2026-11-01", **fields}))

    def url(self, server: ChatServer) -> str:
        return server.url if self.backend == "responses" else server.url.removesuffix("/v1")

    def conversation(self, request: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The items of a request, without its turns' borders."""
        if self.backend == "responses":
            return list(request["input"])
        return [block for turn in request["messages"] for block in turn["content"]]

    def open(self, server: ChatServer, budget: Budget | None = None) -> EndpointBackend:
        prices = {"input": 2.0, "cached_input": 0.2, "cache_write": 2.5, "output": 10.0}
        config = TypeAdapter[Any](ModelConfig).validate_python(
            {
                "backend": self.backend,
                "model": "large",
                "base_url": self.url(server),
                "api_key_env": None,
                "prices": prices,
                "retries": {"max_retries": 1, "backoff_base": 0.001, "outage_wait": 0},
                **self.settings,
            }
        )
        assert isinstance(config, RemoteConfig)
        return EndpointBackend("main", config, budget or Budget(None), threading.Event())


ANTHROPIC = Vendor(
    "anthropic",
    [
        {"type": "thinking", "thinking": "The rate — is it 7?", "signature": "c2lnbmVk/+=="},
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
    ],
    [{"type": "text", "text": "Done."}],
    {"thinking": {"type": "adaptive"}},
)
RESPONSES = Vendor(
    "responses",
    [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "The rate — is it 7?"}],
            "encrypted_content": "gAAAAAB+/==",
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "toolu_1",
            "name": "bash",
            "arguments": '{"command": "ls"}',
        },
    ],
    [{"type": "message", "content": [{"type": "output_text", "text": "Done."}]}],
    {"reasoning": {"effort": "high", "summary": "auto"}},
)
vendors = pytest.mark.parametrize("vendor", [ANTHROPIC, RESPONSES], ids=lambda each: each.backend)


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer().running() as running:
        yield running


def ask(endpoint: EndpointBackend, *messages: Message, **sampling: Any) -> Completion:
    model = endpoint.open(context())
    return model.complete([SYSTEM, TASK, *messages], [TOOL], Sampling(**sampling))


@vendors
def test_reasoning_is_kept_and_sent_back_unchanged(server: ChatServer, vendor: Vendor) -> None:
    server.will_answer(vendor.answer(vendor.thinks), vendor.answer(vendor.ends))
    endpoint = vendor.open(server)
    first = ask(endpoint)
    message = first.message
    assert (message.content, message.reasoning) == ("I look.", "The rate — is it 7?")
    assert message.tool_calls == (ToolCall("toolu_1", "bash", '{"command": "ls"}'),)
    assert (first.finish_reason, first.served_model) == ("tool_calls", "large-2026-11-01")
    answered = Message("tool", "a.py", tool_call_id="toolu_1", name="bash")
    second = ask(endpoint, message, answered, Message("user", "Go on."))
    assert (second.message.content, second.finish_reason) == ("Done.", "stop")
    sent = vendor.conversation(server.requests[1])
    assert sent[1 : 1 + len(vendor.thinks)] == vendor.thinks
    assert "a.py" in (sent[-2].get("content"), sent[-2].get("output"))
    assert second.message.provider_items is None, "it has nothing that must come back unchanged"


@vendors
def test_costs_are_of_the_tokens_that_were_read_and_written(
    server: ChatServer, vendor: Vendor
) -> None:
    server.will_answer(vendor.answer(vendor.ends))
    budget = Budget(1.0)
    completion = ask(vendor.open(server, budget))
    usage = completion.usage
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (1000, 800, 50)
    written = 100 if vendor is ANTHROPIC else 0
    expected = ((200 - written) * 2.0 + 800 * 0.2 + written * 2.5 + 50 * 10.0) / 1e6
    assert completion.dollars == budget.spent == pytest.approx(expected)


@vendors
def test_a_forced_answer_forbids_calls(server: ChatServer, vendor: Vendor) -> None:
    server.will_answer(vendor.answer(vendor.ends))
    ask(vendor.open(server), tool_choice="none", max_tokens=7)
    [request] = server.requests
    assert request["tool_choice"] in ("none", {"type": "none"})
    assert 7 in (request.get("max_tokens"), request.get("max_output_tokens"))
    assert "You fix bugs." in (request.get("system"), request.get("instructions"))
    [tool] = request["tools"]
    assert tool.get("input_schema", tool.get("parameters")) == TOOL["function"]["parameters"]  # type: ignore[index]


@vendors
def test_a_reply_ends_at_a_stop_text(server: ChatServer, vendor: Vendor) -> None:
    """Messages stops at the server. Responses can't, so that the reply is cut."""
    said = "I look." if vendor is RESPONSES else "I "
    thinks = json.loads(json.dumps(vendor.thinks[:-1]).replace("I look.", said))
    server.will_answer(vendor.answer(thinks), vendor.answer(vendor.ends))
    endpoint = vendor.open(server)
    message = ask(endpoint, stop=("look",)).message
    assert message.content == "I "
    assert server.requests[0].get("stop_sequences", ["look"]) == ["look"]
    ask(endpoint, message, Message("user", "Go on."))
    assert "look" not in json.dumps(vendor.conversation(server.requests[1]))


@vendors
def test_trouble_is_retried_or_told(server: ChatServer, vendor: Vendor) -> None:
    overloaded = error(529, "Overloaded")
    server.will_answer(overloaded, vendor.answer(vendor.ends))
    endpoint = vendor.open(server)
    assert ask(endpoint).message.content == "Done."
    server.will_answer(error(400, "prompt is too long: 250000 tokens > 200000 maximum"))
    with pytest.raises(ContextTooLong):
        ask(endpoint)
    fields: dict[str, Any] = {"stop_reason": "refusal"}
    if vendor is RESPONSES:
        reason = {"reason": "content_filter"}
        fields = {"status": "incomplete", "incomplete_details": reason}
    server.will_answer(vendor.answer(vendor.ends, **fields))
    with pytest.raises(ContentRefused):
        ask(endpoint)
    server.will_answer(Answer(body='{"hello": 1}'), vendor.answer(vendor.ends))
    assert ask(endpoint).message.content == "Done."
    server.will_answer(error(401, "invalid x-api-key"))
    with pytest.raises(EndpointFailure, match="api_key_env"):
        ask(endpoint)


@pytest.mark.parametrize("backend", ["anthropic", "responses"])
def test_a_seed_that_the_api_does_not_take_is_refused(backend: str) -> None:
    given = {"backend": backend, "model": "large", "sampling": {"seed": 1}}
    with pytest.raises(ValueError, match="takes no seed"):
        TypeAdapter[Any](ModelConfig).validate_python(given)


@pytest.mark.parametrize(
    "vendor",
    [ANTHROPIC, pytest.param(RESPONSES, marks=pytest.mark.slow)],
    ids=lambda each: each.backend,
)
def test_a_run_that_is_interrupted_goes_on_with_its_reasoning(
    server: ChatServer, vendor: Vendor, tmp_path: Path
) -> None:
    """The first start loses its server after one reply; the second sends that reply back."""
    settings = json.dumps(
        {"backend": vendor.backend, "model": "large", "base_url": vendor.url(server)}
    )
    overrides = [each for each in frontier_at(server) if "base_url" not in each]
    command = [
        *("collect", str(CONFIG), f"runs_folder={tmp_path}", "run=test", "runner.concurrency=1"),
        *(f"models.frontier={settings}", *overrides, "runner.budget_dollars=null"),
        *("collect.benchmark.limit=1",),
    ]
    server.will_answer(vendor.answer(vendor.thinks), error(503, "down"))
    main(command)
    [failed] = RunStore(tmp_path / "test").read_rollouts()
    assert failed.failure_type == "EndpointDown"
    server.requests.clear()
    server.will_answer(vendor.answer(vendor.ends))
    assert main(command) == 0
    sent = vendor.conversation(server.requests[0])
    assert sent[1 : 1 + len(vendor.thinks)] == vendor.thinks
    [conversation] = RunStore(tmp_path / "test").read_conversations()
    replies = [row for row in conversation.messages if row.message.role == "assistant"]
    assert replies[0].message.reasoning == "The rate — is it 7?"
    assert replies[0].served_model == "large-2026-11-01"
    assert json.loads(replies[0].message.provider_items or "")[vendor.backend] == vendor.thinks
    assert main(["replay", str(tmp_path / "test")]) == 0
