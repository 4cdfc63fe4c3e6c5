"""OpenAI's chat-completions API, which most servers speak: requests and replies."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

import openai
from pydantic import Field

from collect.errors import ConfigError
from collect.models.base import Sampling, Tokens, Usage
from collect.models.config import OpenAIConfig
from collect.models.endpoint_client import (
    SERVER_ADVICE,
    Api,
    Part,
    Reply,
    UnreadableReply,
    api_key,
    bounded,
    mask_of,
    read_refusal,
)
from collect.models.tool_parsing import BROKEN, arguments_object
from collect.store.messages import Message, ToolCall, ToolSchema, to_openai

EXCERPT = 200
"""Characters of an invalid call that an error quotes."""


class _Details(Part):
    cached_tokens: Tokens | None = None


class _Usage(Part):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    prompt_tokens_details: _Details | None = None


class _Choice(Part):
    message: dict[str, Any]
    finish_reason: str | None = None


class _Completion(Reply):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Usage | None = None

    @property
    def tokens(self) -> Usage | None:
        """Cached tokens are capped at the tokens sent: a wrong count would lower the cost."""
        usage = self.usage
        if usage is None or usage.prompt_tokens is None:
            return None
        details = usage.prompt_tokens_details or _Details()
        cached = min(details.cached_tokens or 0, usage.prompt_tokens)
        return Usage(usage.prompt_tokens, usage.completion_tokens or 0, cached)

    @property
    def finish_reason(self) -> str:
        return self.choices[0].finish_reason or "stop"

    def message(self, sampling: Sampling, id_prefix: str) -> Message:
        plain = self.choices[0].message
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
        )


class ChatCompletions(Api[OpenAIConfig]):
    """See `collect.models.endpoint_client.Api`."""

    name, reply = "chat completion", _Completion
    sdk, client = openai, openai.OpenAI

    def fields(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> dict[str, Any]:
        config = self.config
        fields: dict[str, Any] = {
            "model": config.model,
            "messages": [_sent(message, config.reasoning_field) for message in messages],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "stop": list(sampling.stop) if sampling.stop else None,
            "seed": sampling.seed,
            config.max_tokens_field: sampling.max_tokens,
            "extra_body": config.extra_body or None,
        }
        if tools:
            fields["tools"] = list(tools)
            fields["tool_choice"] = sampling.tool_choice or config.tool_choice
            fields["parallel_tool_calls"] = config.parallel_tool_calls
        return fields

    def requests(self, client: openai.OpenAI) -> Any:
        return client.chat.completions


def list_models(config: OpenAIConfig) -> list[str]:
    """The models that a server lists. Raises ConfigError if it does not answer with a list."""
    key = api_key(config)
    with ChatCompletions(config).open(key) as client:
        try:
            body = client.models.with_raw_response.list().http_response.text
            return [str(each["id"]) for each in json.loads(body)["data"]]
        except openai.APIStatusError as error:
            refusal = read_refusal(error.status_code, error.response.text, error.response.headers)
            said, advice = str(refusal), refusal.advice
        except (UnreadableReply, TimeoutError, openai.APIConnectionError) as error:
            mask = mask_of(config.base_url or "", key)
            said, advice = mask(f"{error} {error.__cause__ or ''}"), SERVER_ADVICE
        except (*BROKEN, KeyError, TypeError):
            said, advice = f"its answer is no list of models: {bounded(body)}", SERVER_ADVICE
    raise ConfigError(f"the server at {config.base_url} lists no models: {said}. {advice}")


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
        raise ValueError(f"a tool call is no function call: {str(plain)[:EXCERPT]}")
    call_id, name, arguments = plain.get("id"), function.get("name"), function.get("arguments")
    if not isinstance(call_id, str | int | None) or not isinstance(name, str | None):
        raise ValueError(f"a tool call has an id or a name that is none: {str(plain)[:EXCERPT]}")
    if not isinstance(arguments, str | None):
        arguments = json.dumps(arguments)
    return ToolCall(str(call_id or fallback_id), name or "", arguments or "")


def _text(content: Any) -> str:
    """Content as text; some servers send it as a list of parts."""
    if isinstance(content, list):
        parts = (part.get("text", "") for part in content if isinstance(part, dict))
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else ""
