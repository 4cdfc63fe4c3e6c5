"""Requests and replies of OpenAI's chat completions, as they stand on the wire."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from collect.messages import Message, ToolCall, ToolSchema, to_openai
from collect.models.base import Sampling, Tokens, Usage
from collect.models.config import OpenAIConfig
from collect.models.tool_parsing import BROKEN, arguments_object
from collect.wrong_fields import first_wrong_field
from sandbox.text import storable

EXCERPT = 200
"""Characters of a wrong call that an error quotes."""


class _Part(BaseModel):
    """Of a reply; a server may add fields."""

    model_config = ConfigDict(strict=True, frozen=True)


class _Details(_Part):
    cached_tokens: Tokens | None = None


class _Usage(_Part):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    prompt_tokens_details: _Details | None = None


class _Choice(_Part):
    message: dict[str, Any]
    finish_reason: str | None = None


class Reply(_Part):
    """A chat completion, of which the message is still to be read."""

    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Usage | None = None

    @property
    def message(self) -> Mapping[str, Any]:
        """As it came."""
        return self.choices[0].message

    @property
    def finish_reason(self) -> str:
        """The server's word."""
        return storable(self.choices[0].finish_reason or "stop")

    @property
    def tokens(self) -> Usage | None:
        """None where the server gives none. No more come from its cache than were sent: they would
        lower what the reply costs."""
        counted = self.usage
        if counted is None or counted.prompt_tokens is None:
            return None
        details = counted.prompt_tokens_details or _Details()
        cached = min(details.cached_tokens or 0, counted.prompt_tokens)
        return Usage(counted.prompt_tokens, counted.completion_tokens or 0, cached)


def read_reply(body: str) -> Reply:
    """Raises ValueError, which says what is wrong, where it is no chat completion."""
    try:
        decoded = json.loads(body)
    except BROKEN as error:
        raise ValueError(f"not JSON ({error})") from error
    try:
        return Reply.model_validate(decoded)
    except ValidationError as error:
        raise ValueError(first_wrong_field(error, Reply)) from error


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
    content, calls = plain.get("content"), plain.get("tool_calls")
    if not isinstance(content, str | list | None):
        raise ValueError(f"the content is no text: {type(content).__name__}")
    if not isinstance(calls, list | None):
        raise ValueError(f"the tool calls are no list: {type(calls).__name__}")
    return Message(
        role="assistant",
        content=_text(content) or _text(plain.get("refusal")),
        reasoning=_text(plain.get("reasoning_content") or plain.get("reasoning")) or None,
        tool_calls=tuple(
            _read_call(call, f"{id_prefix}{index}") for index, call in enumerate(calls or ())
        ),
    ).storable()


def _read_call(plain: Any, fallback_id: str) -> ToolCall:
    function = plain.get("function") if isinstance(plain, dict) else None
    if not isinstance(function, dict):
        raise ValueError(f"a tool call is no function call: {_excerpt(plain)}")
    call_id, name = plain.get("id"), function.get("name")
    if not isinstance(call_id, str | int | None) or not isinstance(name, str | None):
        raise ValueError(f"a tool call has an id or a name that is none: {_excerpt(plain)}")
    arguments = function.get("arguments")
    if arguments is None:
        arguments = ""
    if not isinstance(arguments, str):
        try:
            arguments = json.dumps(arguments)
        except RecursionError as error:
            raise ValueError("the arguments of a tool call are nested too deeply") from error
    return ToolCall(str(call_id or fallback_id), name or "", arguments)


def _excerpt(plain: Any) -> str:
    try:
        return repr(plain)[:EXCERPT]
    except RecursionError:
        return "nested too deeply"


def _text(content: Any) -> str:
    """Content as text; some servers send it as a list of parts."""
    if isinstance(content, list):
        parts = (part.get("text", "") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""
