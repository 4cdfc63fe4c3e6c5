"""OpenAI's Responses API: requests and replies, with encrypted reasoning and its summaries."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import openai

from collect.models.base import Sampling, Tokens, Usage
from collect.models.config import ResponsesConfig
from collect.models.endpoint_client import Api, Part, Reply, own_items
from collect.store.messages import Message, ToolCall, ToolSchema


class _Details(Part):
    cached_tokens: Tokens | None = None


class _Usage(Part):
    input_tokens: Tokens
    output_tokens: Tokens = 0
    input_tokens_details: _Details | None = None


class _Response(Reply):
    output: list[dict[str, Any]]
    status: str | None = None
    incomplete_details: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    usage: _Usage | None = None

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
        reason = str((self.incomplete_details or {}).get("reason") or "")
        if reason:
            return "length" if reason == "max_output_tokens" else reason
        called = any(item.get("type") == "function_call" for item in self.output)
        return "tool_calls" if called else "stop"

    def message(self, sampling: Sampling, id_prefix: str) -> Message:
        items = self.output
        said = "".join(_texts(items, ("output_text", "refusal")))
        content = said
        for stop in sampling.stop or ():
            content = content.partition(stop)[0]
        calls: list[ToolCall] = []
        for item in items:
            if item.get("type") != "function_call":
                continue
            name, arguments = item.get("name"), item.get("arguments")
            if not isinstance(name, str) or not isinstance(arguments, str):
                raise ValueError(f"a tool call has no name, or no arguments: {str(item)[:200]!r}")
            call_id = str(item.get("call_id") or f"{id_prefix}{len(calls)}")
            calls.append(ToolCall(call_id, name, arguments))
        thoughts = _texts(items, ("summary_text", "reasoning_text"))
        # A reply that was cut is not sent back in its own form.
        reasoned = any(item.get("type") == "reasoning" for item in items)
        whole = reasoned and content == said
        return Message(
            role="assistant",
            content=content,
            reasoning="\n\n".join(thoughts) or None,
            tool_calls=tuple(calls),
            provider_items=json.dumps({"responses": items}, ensure_ascii=False) if whole else None,
        )


class OpenAIResponses(Api[ResponsesConfig]):
    """See `collect.models.endpoint_client.Api`."""

    name, reply = "response", _Response
    sdk, client = openai, openai.OpenAI

    def fields(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> dict[str, Any]:
        """The API has no stop texts: `message` cuts the reply at them."""
        config = self.config
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
        return fields

    def requests(self, client: openai.OpenAI) -> Any:
        return client.responses

    def read(self, body: str) -> Reply:
        response = super().read(body)
        if isinstance(response, _Response) and response.error is not None:
            raise ValueError(f"it failed: {response.error.get('message')}")
        return response


def _texts(items: Sequence[Mapping[str, Any]], kinds: tuple[str, ...]) -> Iterator[str]:
    """The texts of the items' parts of these kinds."""
    for item in items:
        for part in [*(item.get("summary") or ()), *(item.get("content") or ())]:
            if isinstance(part, dict) and part.get("type") in kinds:
                yield str(part.get("text") or part.get("refusal") or "")


def _items(message: Message) -> list[dict[str, Any]]:
    """A message as input items."""
    if message.role == "system":
        return []
    if message.role == "tool":
        answered = {"call_id": message.tool_call_id, "output": message.content}
        return [{"type": "function_call_output", **answered}]
    if own := own_items(message, "responses"):
        return own
    items: list[dict[str, Any]] = []
    if message.content or not message.tool_calls:
        items.append({"role": message.role, "content": message.content})
    for call in message.tool_calls:
        made = {"call_id": call.id, "name": call.name, "arguments": call.arguments or "{}"}
        items.append({"type": "function_call", **made})
    return items
