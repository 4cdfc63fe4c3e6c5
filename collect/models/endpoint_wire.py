"""Requests and replies of OpenAI's chat completions, as they stand on the wire."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from collect.messages import Message, ToolCall, ToolSchema, to_openai
from collect.models.base import Sampling, Usage
from collect.models.config import OpenAIConfig
from collect.models.tool_parsing import arguments_object


def request_fields(
    config: OpenAIConfig,
    messages: Sequence[Message],
    tools: Sequence[ToolSchema],
    sampling: Sampling,
) -> dict[str, Any]:
    """The fields of one request; what is None is left to the server."""
    fields: dict[str, Any] = {
        "model": config.model,
        "messages": [_sent(message, config.reasoning_field) for message in messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "stop": list(sampling.stop) if sampling.stop else None,
        "seed": sampling.seed,
        config.max_tokens_field: sampling.max_tokens,
    }
    if tools:
        fields["tools"] = list(tools)
        fields["tool_choice"] = config.tool_choice
        fields["parallel_tool_calls"] = config.parallel_tool_calls
    return {name: value for name, value in fields.items() if value is not None}


def _sent(message: Message, reasoning_field: str | None) -> dict[str, Any]:
    sent = to_openai(message)
    for call in sent.get("tool_calls", ()):
        function = call["function"]
        decoded = arguments_object(function["arguments"])
        if "malformed_arguments" in decoded or not function["arguments"]:
            function["arguments"] = json.dumps(decoded)
    if reasoning_field and message.reasoning:
        sent[reasoning_field] = message.reasoning
    return sent


def read_message(plain: Mapping[str, Any], id_prefix: str) -> Message:
    """The reply's message, its storable text and raw arguments as they came. Raises ValueError.

    `id_prefix` makes the ids of calls that came without one.
    """
    return Message(
        role="assistant",
        content=_text(plain.get("content")) or _text(plain.get("refusal")),
        reasoning=_text(plain.get("reasoning_content") or plain.get("reasoning")) or None,
        tool_calls=tuple(
            _read_call(call, f"{id_prefix}{index}")
            for index, call in enumerate(plain.get("tool_calls") or ())
        ),
    ).storable()


def _read_call(plain: Any, fallback_id: str) -> ToolCall:
    function = plain.get("function") if isinstance(plain, dict) else None
    if not isinstance(function, dict):
        raise ValueError(f"a tool call is no function call: {plain!r}")
    arguments = function.get("arguments")
    if arguments is None:
        arguments = ""
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    return ToolCall(str(plain.get("id") or fallback_id), str(function.get("name") or ""), arguments)


def _text(content: Any) -> str:
    """Content as text; some servers send it as a list of parts."""
    if isinstance(content, list):
        parts = (part.get("text", "") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""


def read_usage(plain: Any) -> Usage | None:
    """The reply's token counts; None where the server gives none."""
    if not isinstance(plain, dict) or not isinstance(plain.get("prompt_tokens"), int):
        return None
    details = plain.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return Usage(plain["prompt_tokens"], plain.get("completion_tokens") or 0, cached or 0)
