"""OpenAI's two APIs. Most servers speak chat completions; Responses has encrypted reasoning and its
summaries.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any

import openai
from pydantic import Field, TypeAdapter, ValidationError

from collect.models.base import Sampling, Tokens, Usage
from collect.models.config import OpenAIConfig, ResponsesConfig
from collect.models.endpoint_client import Api, Part, Reply, own_items
from collect.store.messages import (
    Message,
    ReplyTokens,
    ToolCall,
    ToolSchema,
    arguments_object,
    to_openai,
)

EXCERPT = 200
"""Characters of an invalid call that an error quotes."""
_TOKENS = TypeAdapter(ReplyTokens)


class _Details(Part):
    cached_tokens: Tokens | None = None

    def usage(self, prompt: int, completion: int) -> Usage:
        """Cached tokens are capped at the tokens sent: a wrong count would lower the cost."""
        return Usage(prompt, completion, min(self.cached_tokens or 0, prompt))


class _Usage(Part):
    prompt_tokens: Tokens | None = None
    completion_tokens: Tokens | None = None
    prompt_tokens_details: _Details | None = None


class _Choice(Part):
    message: dict[str, Any]
    finish_reason: str | None = None
    # Only read if asked for, since servers have other forms of them.
    token_ids: Any = None
    logprobs: Any = None


class _Completion(Reply):
    choices: Annotated[list[_Choice], Field(min_length=1)]
    usage: _Usage | None = None
    prompt_token_ids: Any = None

    @property
    def tokens(self) -> Usage | None:
        usage = self.usage
        if usage is None or usage.prompt_tokens is None:
            return None
        details = usage.prompt_tokens_details or _Details()
        return details.usage(usage.prompt_tokens, usage.completion_tokens or 0)

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
            reasoning=_reasoning(plain) or None,
            tool_calls=tuple(
                _read_call(call, f"{id_prefix}{index}") for index, call in enumerate(calls or ())
            ),
        )

    @property
    def sampled(self) -> ReplyTokens | None:
        ids, logprobs = self.choices[0].token_ids, self.choices[0].logprobs
        try:
            found = [each["logprob"] for each in logprobs["content"]]
            own = {"prompt_ids": self.prompt_token_ids, "token_ids": ids, "logprobs": found}
            tokens = _TOKENS.validate_python(own)
        except (KeyError, TypeError, ValidationError):
            return None
        return tokens if len(tokens.token_ids) == len(tokens.logprobs) else None


class ChatCompletions(Api[OpenAIConfig]):
    name, reply = "chat completion", _Completion
    sdk, client, requests = openai, openai.OpenAI, attrgetter("chat.completions")

    def fields(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> dict[str, Any]:
        config = self.config
        ids = {"return_token_ids": True} if config.logprobs else {}
        fields: dict[str, Any] = {
            "model": config.model,
            "messages": [_sent(message, config.reasoning_field) for message in messages],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "stop": list(sampling.stop) if sampling.stop else None,
            "seed": sampling.seed,
            "logprobs": config.logprobs or None,
            config.max_tokens_field: sampling.max_tokens,
            "extra_body": ids | config.extra_body or None,
        }
        if tools:
            fields["tools"] = list(tools)
            fields["tool_choice"] = sampling.tool_choice or config.tool_choice
            fields["parallel_tool_calls"] = config.parallel_tool_calls
        return fields


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
        parts = (each for each in content if not isinstance(each, list))
        return "".join(map(_text, parts))
    if isinstance(content, dict) and not _is_thought(content):
        content = content.get("text")
    return content if isinstance(content, str) else ""


THOUGHTS = ("thinking", "reasoning", "thought")
"""How the types of parts with reasoning begin, and the fields that hold it."""


def _reasoning(plain: Mapping[str, Any]) -> str:
    """A message's reasoning: in a field of its own, or in parts of the content."""
    for name in ("reasoning_content", "reasoning", "thinking"):
        if text := _text(plain.get(name)) or _thoughts(plain.get(name)):
            return text
    return _thoughts(plain.get("content")) or _thoughts(plain.get("reasoning_details"))


def _thoughts(parts: Any) -> str:
    if not isinstance(parts, list):
        return ""
    found = []
    for part in parts:
        if isinstance(part, dict) and _is_thought(part):
            texts = (_text(part.get(name)) for name in (*THOUGHTS, "text", "summary", "content"))
            found.append(next(filter(None, texts), ""))
    return "\n\n".join(filter(None, found))


def _is_thought(part: Mapping[str, Any]) -> bool:
    return str(part.get("type")).startswith(THOUGHTS) or part.get("thought") is True


# The Responses API.


class _ResponseUsage(Part):
    input_tokens: Tokens
    output_tokens: Tokens = 0
    input_tokens_details: _Details | None = None


class _Response(Reply):
    output: list[dict[str, Any]]
    status: str | None = None
    incomplete_details: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    usage: _ResponseUsage | None = None

    @property
    def tokens(self) -> Usage | None:
        """Reasoning is part of the output tokens."""
        if self.usage is None:
            return None
        details = self.usage.input_tokens_details or _Details()
        return details.usage(self.usage.input_tokens, self.usage.output_tokens)

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
    name, reply = "response", _Response
    sdk, client, requests = openai, openai.OpenAI, attrgetter("responses")

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
