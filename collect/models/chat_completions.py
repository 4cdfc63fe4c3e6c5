"""OpenAI's chat-completions API, which most servers speak: requests and replies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import openai
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from collect.field_errors import first_wrong_field
from collect.models.base import Sampling, Tokens, Usage
from collect.models.config import OpenAIConfig
from collect.models.endpoint_client import Reply, open_client
from collect.models.tool_parsing import BROKEN, arguments_object
from collect.store.messages import Message, ToolCall, ToolSchema, to_openai
from sandbox.text import storable

EXCERPT = 200
"""Characters of an invalid call that an error quotes."""


class _Part(BaseModel):
    """Part of a reply; a server may add fields."""

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


class _Completion(_Part):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Usage | None = None
    model: Any = None

    @property
    def tokens(self) -> Usage | None:
        """None if the server reports none. Cached tokens are capped at the tokens sent: a wrong
        count would lower the reply's cost.
        """
        counted = self.usage
        if counted is None or counted.prompt_tokens is None:
            return None
        details = counted.prompt_tokens_details or _Details()
        cached = min(details.cached_tokens or 0, counted.prompt_tokens)
        return Usage(counted.prompt_tokens, counted.completion_tokens or 0, cached)


class ChatCompletions:
    """See `collect.models.endpoint.Api`."""

    name = "chat completion"
    sdk: Any = openai

    def __init__(self, config: OpenAIConfig) -> None:
        self._config = config

    def open(self, key: str | None) -> openai.OpenAI:
        return open_client(self._config, key)

    def fields(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> dict[str, Any]:
        config = self._config
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
            fields["tool_choice"] = sampling.tool_choice or config.tool_choice
            fields["parallel_tool_calls"] = config.parallel_tool_calls
        return {name: value for name, value in fields.items() if value is not None}

    def send(self, client: openai.OpenAI, fields: dict[str, Any]) -> str:
        raw = client.chat.completions.with_raw_response.create(
            **fields, extra_body=self._config.extra_body or None
        )
        return raw.http_response.text

    def read(self, body: str) -> Reply:
        try:
            decoded = json.loads(body)
        except BROKEN as error:
            raise ValueError(f"not JSON ({error})") from error
        try:
            completion = _Completion.model_validate(decoded)
        except ValidationError as error:
            raise ValueError(first_wrong_field(error, _Completion)) from error
        choice, model = completion.choices[0], completion.model
        return Reply(
            completion.tokens,
            storable(choice.finish_reason or "stop"),
            storable(model) if isinstance(model, str) else None,
            choice.message,
        )

    def message(self, reply: Reply, sampling: Sampling, id_prefix: str) -> Message:
        plain = reply.raw
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
