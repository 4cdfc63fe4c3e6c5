"""OpenAI's Responses API: requests and replies, with encrypted reasoning and its summaries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import openai
from pydantic import BaseModel, ConfigDict, ValidationError

from collect.field_errors import first_wrong_field
from collect.models.base import Sampling, Tokens, Usage
from collect.models.config import ResponsesConfig
from collect.models.endpoint_client import Reply, open_client
from collect.models.tool_parsing import BROKEN
from collect.store.messages import Message, ToolCall, ToolSchema
from sandbox.text import storable


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class _Details(_Part):
    cached_tokens: Tokens | None = None


class _Usage(_Part):
    input_tokens: Tokens
    output_tokens: Tokens = 0
    input_tokens_details: _Details | None = None


class _Response(_Part):
    output: list[dict[str, Any]]
    status: str | None = None
    incomplete_details: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    usage: _Usage | None = None
    model: Any = None

    @property
    def tokens(self) -> Usage | None:
        """Reasoning is part of the output tokens."""
        if self.usage is None:
            return None
        details = self.usage.input_tokens_details or _Details()
        cached = min(details.cached_tokens or 0, self.usage.input_tokens)
        return Usage(self.usage.input_tokens, self.usage.output_tokens, cached)

    @property
    def finish_reason(self) -> str:
        """In the words of chat completions."""
        reason = str((self.incomplete_details or {}).get("reason") or "")
        if reason:
            return "length" if reason == "max_output_tokens" else reason
        called = any(item.get("type") == "function_call" for item in self.output)
        return "tool_calls" if called else "stop"


class OpenAIResponses:
    """See `collect.models.endpoint.Api`."""

    name = "response"
    sdk: Any = openai

    def __init__(self, config: ResponsesConfig) -> None:
        self._config = config

    def open(self, key: str | None) -> openai.OpenAI:
        return open_client(self._config, key)

    def fields(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> dict[str, Any]:
        """The API has no stop texts: `message` cuts the reply at them."""
        config = self._config
        system = "\n\n".join(each.content for each in messages if each.role == "system")
        fields: dict[str, Any] = {
            "model": config.model,
            "instructions": system or None,
            "input": [item for message in messages for item in _items(message)],
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "reasoning": config.reasoning,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_output_tokens": sampling.max_tokens,
            "extra_body": config.extra_body or None,
        }
        if tools:
            # `strict` would need schemas in which every argument is required.
            fields["tools"] = [
                {"type": "function", "strict": False, **tool["function"]} for tool in tools
            ]
            fields["tool_choice"] = sampling.tool_choice or config.tool_choice
            fields["parallel_tool_calls"] = config.parallel_tool_calls
        return {name: value for name, value in fields.items() if value is not None}

    def send(self, client: openai.OpenAI, fields: dict[str, Any]) -> str:
        return client.responses.with_raw_response.create(**fields).http_response.text

    def read(self, body: str) -> Reply:
        try:
            response = _Response.model_validate_json(body)
        except ValidationError as error:
            raise ValueError(first_wrong_field(error, _Response)) from error
        if response.error is not None:
            raise ValueError(f"it failed: {response.error.get('message')}")
        return Reply(
            response.tokens,
            storable(response.finish_reason),
            storable(response.model) if isinstance(response.model, str) else None,
            {"output": response.output},
        )

    def message(self, reply: Reply, sampling: Sampling, id_prefix: str) -> Message:
        items: list[dict[str, Any]] = reply.raw["output"]
        reasoning = [item for item in items if item.get("type") == "reasoning"]
        said = "".join(_texts(items, "message", ("output_text", "refusal")))
        content = said
        for stop in sampling.stop or ():
            content = content.partition(stop)[0]
        calls = [item for item in items if item.get("type") == "function_call"]
        thoughts = _texts(reasoning, "reasoning", ("summary_text", "reasoning_text"))
        # A reply that was cut is sent back as it was kept.
        whole = bool(reasoning) and content == said
        return Message(
            role="assistant",
            content=content,
            reasoning="\n\n".join(thoughts) or None,
            provider_items=json.dumps({"responses": items}, ensure_ascii=False) if whole else None,
            tool_calls=tuple(
                _read_call(call, f"{id_prefix}{index}") for index, call in enumerate(calls)
            ),
        ).storable()


def _texts(items: Sequence[Mapping[str, Any]], kind: str, parts: tuple[str, ...]) -> Iterator[str]:
    """The texts of an item's parts: `content`, and for reasoning `summary` before it."""
    for item in items:
        if item.get("type") != kind:
            continue
        for part in [*(item.get("summary") or ()), *(item.get("content") or ())]:
            if isinstance(part, dict) and part.get("type") in parts:
                yield str(part.get("text") or part.get("refusal") or "")


def _read_call(item: Mapping[str, Any], fallback_id: str) -> ToolCall:
    name, arguments = item.get("name"), item.get("arguments")
    if not isinstance(name, str) or not isinstance(arguments, str):
        raise ValueError(f"a tool call has no name, or no arguments: {str(item)[:200]!r}")
    return ToolCall(str(item.get("call_id") or fallback_id), name, arguments)


def _items(message: Message) -> list[dict[str, Any]]:
    """A message as input items."""
    if message.role == "system":
        return []
    if message.role == "tool":
        answered = {"call_id": message.tool_call_id, "output": message.content}
        return [{"type": "function_call_output", **answered}]
    if message.provider_items:
        try:
            own = json.loads(message.provider_items).get("responses")
        except BROKEN:
            own = None
        if own:
            return list(own)
    items: list[dict[str, Any]] = []
    if message.content or not message.tool_calls:
        items.append({"role": message.role, "content": message.content})
    for call in message.tool_calls:
        made = {"call_id": call.id, "name": call.name, "arguments": call.arguments or "{}"}
        items.append({"type": "function_call", **made})
    return items
