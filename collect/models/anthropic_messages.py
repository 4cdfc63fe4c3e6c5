"""Anthropic's Messages API: requests and replies, with signed thinking and prompt caching."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import anthropic
from pydantic import BaseModel, ConfigDict, ValidationError

from collect.field_errors import first_wrong_field
from collect.models.base import Sampling, Tokens, Usage
from collect.models.config import AnthropicConfig
from collect.models.endpoint_client import Reply, connection
from collect.models.tool_parsing import BROKEN, arguments_object
from collect.store.messages import Message, ToolCall, ToolSchema
from sandbox.text import storable

ADDRESS = "https://api.anthropic.com"
FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
"""OpenAI's words for the API's stop reasons; others are kept as they are."""
THINKING = ("thinking", "redacted_thinking")
NO_TEXT = "(no text)"
"""Stands for a reply without text or calls, which the API would not take back."""


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class _Usage(_Part):
    input_tokens: Tokens
    output_tokens: Tokens = 0
    cache_read_input_tokens: Tokens | None = None
    cache_creation_input_tokens: Tokens | None = None


class _Completion(_Part):
    content: list[dict[str, Any]]
    stop_reason: str | None = None
    usage: _Usage | None = None
    model: Any = None

    @property
    def tokens(self) -> Usage | None:
        """The API counts cached tokens apart from the rest of the prompt."""
        if self.usage is None:
            return None
        read = self.usage.cache_read_input_tokens or 0
        written = self.usage.cache_creation_input_tokens or 0
        prompt = self.usage.input_tokens + read + written
        return Usage(prompt, self.usage.output_tokens, read, written)


class AnthropicMessages:
    """See `collect.models.endpoint.Api`."""

    name = "Messages reply"
    sdk: Any = anthropic

    def __init__(self, config: AnthropicConfig) -> None:
        self._config = config

    def open(self, key: str | None) -> anthropic.Anthropic:
        config = self._config
        address = config.base_url or os.environ.get("ANTHROPIC_BASE_URL") or ADDRESS
        return anthropic.Anthropic(
            api_key=key or "none",
            **connection(config, address, key, anthropic.Timeout, anthropic.DefaultHttpxClient),
        )

    def fields(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> dict[str, Any]:
        config = self._config
        system = "\n\n".join(each.content for each in messages if each.role == "system")
        fields: dict[str, Any] = {
            "model": config.model,
            "max_tokens": sampling.max_tokens or config.max_tokens,
            "system": system or None,
            "messages": _turns(messages),
            "stop_sequences": list(sampling.stop) if sampling.stop else None,
            "thinking": config.thinking,
            "cache_control": {"type": "ephemeral"} if config.cache_prompts else None,
        }
        if tools:
            fields["tools"] = [_tool(tool["function"]) for tool in tools]
            fields["tool_choice"] = self._tool_choice(sampling)
        body = {"temperature": sampling.temperature, "top_p": sampling.top_p, **config.extra_body}
        fields["extra_body"] = {name: value for name, value in body.items() if value is not None}
        return {name: value for name, value in fields.items() if value is not None}

    def _tool_choice(self, sampling: Sampling) -> dict[str, Any] | None:
        chosen = sampling.tool_choice or self._config.tool_choice
        if isinstance(chosen, str):
            chosen = {"type": "any" if chosen == "required" else chosen}
        if self._config.parallel_tool_calls is not None and sampling.tool_choice is None:
            chosen = dict(chosen or {"type": "auto"})
            chosen["disable_parallel_tool_use"] = not self._config.parallel_tool_calls
        return chosen

    def send(self, client: anthropic.Anthropic, fields: dict[str, Any]) -> str:
        return client.messages.with_raw_response.create(**fields).http_response.text

    def read(self, body: str) -> Reply:
        try:
            completion = _Completion.model_validate_json(body)
        except ValidationError as error:
            raise ValueError(first_wrong_field(error, _Completion)) from error
        reason, model = completion.stop_reason or "end_turn", completion.model
        return Reply(
            completion.tokens,
            storable(FINISH_REASONS.get(reason, reason)),
            storable(model) if isinstance(model, str) else None,
            {"content": completion.content},
        )

    def message(self, reply: Reply, sampling: Sampling, id_prefix: str) -> Message:
        blocks: list[dict[str, Any]] = reply.raw["content"]
        thought = [each for each in blocks if each.get("type") in THINKING]
        calls = [each for each in blocks if each.get("type") == "tool_use"]
        said = [str(each.get("text", "")) for each in blocks if each.get("type") == "text"]
        reasoning = [str(each["thinking"]) for each in thought if each.get("thinking")]
        kept = json.dumps({"anthropic": blocks}, ensure_ascii=False) if thought else None
        return Message(
            role="assistant",
            content="".join(said),
            reasoning="\n\n".join(reasoning) or None,
            provider_items=kept,
            tool_calls=tuple(
                _read_call(call, f"{id_prefix}{index}") for index, call in enumerate(calls)
            ),
        ).storable()


def _read_call(block: Mapping[str, Any], fallback_id: str) -> ToolCall:
    name, given = block.get("name"), block.get("input")
    if not isinstance(name, str) or not isinstance(given, dict):
        raise ValueError(f"a tool call has no name, or no input: {str(block)[:200]!r}")
    return ToolCall(
        str(block.get("id") or fallback_id), name, json.dumps(given, ensure_ascii=False)
    )


def _tool(function: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "input_schema": function["parameters"],
    }


def _turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """The conversation as turns of user and assistant. What is said between two replies, tools'
    answers included, is one turn.
    """
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if not turns or turns[-1]["role"] != role:
            turns.append({"role": role, "content": []})
        turns[-1]["content"] += _blocks(message)
    return turns


def _blocks(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        answered = {"tool_use_id": message.tool_call_id, "content": message.content}
        return [{"type": "tool_result", **answered}]
    if message.provider_items:
        try:
            own = json.loads(message.provider_items).get("anthropic")
        except BROKEN:
            own = None
        if own:
            return list(own)
    blocks: list[dict[str, Any]] = []
    if message.content.strip():
        blocks.append({"type": "text", "text": message.content})
    for call in message.tool_calls:
        given = arguments_object(call.arguments)
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": given})
    return blocks or [{"type": "text", "text": NO_TEXT}]
