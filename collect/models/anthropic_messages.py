"""Anthropic's Messages API: requests and replies, with signed thinking and prompt caching."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import anthropic

from collect.models.base import Sampling, Usage
from collect.models.config import AnthropicConfig
from collect.models.endpoint_client import Api, Count, Part, Reply
from collect.models.received import (
    kept,
    own_items,
    sent_text,
    without_empty,
    written_arguments,
)
from collect.store.messages import Message, ToolCall, ToolSchema, arguments_object

THINKING = ("thinking", "redacted_thinking")
BLOCK_FIELDS = frozenset(("type", "text", "id", "name", "input"))
"""What texts and calls have; thinking, and what else a model did, has more."""


class _Usage(Part):
    input_tokens: Count
    output_tokens: Count = 0
    cache_read_input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None


class _Completion(Reply):
    content: list[dict[str, Any]] | str | None
    stop_reason: str | None = None
    usage: _Usage | None = None

    @property
    def tokens(self) -> Usage | None:
        """The API counts cached tokens apart from the rest of the prompt."""
        if self.usage is None:
            return None
        read = self.usage.cache_read_input_tokens or 0
        written = self.usage.cache_creation_input_tokens or 0
        prompt = self.usage.input_tokens + read + written
        return Usage(prompt, self.usage.output_tokens, read, written)

    @property
    def ended(self) -> str | None:
        return self.stop_reason

    @property
    def is_empty(self) -> bool:
        return not self.content and self.tokens is not None and self.tokens.completion_tokens == 0

    def message(self, sampling: Sampling, id_prefix: str) -> Message:
        blocks = self.content or []
        if isinstance(blocks, str):  # as some servers that speak the API give it
            blocks = [{"type": "text", "text": blocks}]
        thought = [each for each in blocks if each.get("type") in THINKING]
        said = [str(each.get("text", "")) for each in blocks if each.get("type") == "text"]
        reasoning = [str(each["thinking"]) for each in thought if each.get("thinking")]
        calls: list[ToolCall] = []
        for block in blocks:
            if block.get("type") != "tool_use":
                continue
            name, given = block.get("name"), block.get("input")
            arguments = given if isinstance(given, str) else written_arguments(given)
            call_id = str(block.get("id") or f"{id_prefix}{len(calls)}")
            calls.append(ToolCall(call_id, name if isinstance(name, str) else "", arguments))
        return Message(
            role="assistant",
            content="".join(said),
            reasoning="\n\n".join(reasoning) or None,
            tool_calls=tuple(calls),
            provider_items=kept("anthropic", blocks)
            if any(without_empty(block, BLOCK_FIELDS) for block in blocks)
            else None,
        )


class AnthropicMessages(Api[AnthropicConfig]):
    name, reply = "Messages reply", _Completion
    sdk, client, requests = anthropic, anthropic.Anthropic, attrgetter("messages")
    address_variable, default_address = "ANTHROPIC_BASE_URL", "https://api.anthropic.com"

    def fields(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> dict[str, Any]:
        config = self.config
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
            fields["tools"] = [
                {
                    "name": tool["function"]["name"],
                    "description": tool["function"].get("description", ""),
                    "input_schema": tool["function"]["parameters"],
                }
                for tool in tools
            ]
            fields["tool_choice"] = self._tool_choice(sampling)
        body = {"temperature": sampling.temperature, "top_p": sampling.top_p, **config.extra_body}
        fields["extra_body"] = {name: value for name, value in body.items() if value is not None}
        return fields

    def _tool_choice(self, sampling: Sampling) -> dict[str, Any] | None:
        chosen = sampling.tool_choice or self.config.tool_choice
        if isinstance(chosen, str):
            chosen = {"type": "any" if chosen == "required" else chosen}
        if self.config.parallel_tool_calls is not None and sampling.tool_choice is None:
            chosen = dict(chosen or {"type": "auto"})
            chosen["disable_parallel_tool_use"] = not self.config.parallel_tool_calls
        return chosen


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
    if message.role == "assistant" and (own := _own(message)):
        return own
    blocks: list[dict[str, Any]] = []
    if message.content.strip():
        blocks.append({"type": "text", "text": message.content})
    blocks += map(_block, message.tool_calls)
    return blocks or [{"type": "text", "text": sent_text(message)}]


def _block(call: ToolCall) -> dict[str, Any]:
    given = arguments_object(call.arguments)
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": given}


def _own(message: Message) -> list[dict[str, Any]]:
    """A reply's own blocks as the API takes them back: without empty texts, and with more than
    thinking."""
    blocks = [
        block
        for block in own_items(message, "anthropic", _block)
        if block.get("type") != "text" or str(block.get("text") or "").strip()
    ]
    # A reply that was cut while the model thought has no signature.
    while blocks and blocks[-1].get("type") == "thinking" and not blocks[-1].get("signature"):
        blocks.pop()
    if blocks and all(block.get("type") in THINKING for block in blocks):
        blocks.append({"type": "text", "text": sent_text(message)})
    return blocks
