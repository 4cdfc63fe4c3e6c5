"""OpenAI's two APIs. Most servers speak chat completions; Responses has encrypted reasoning and its
summaries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Annotated, Any

import openai
from pydantic import Field, TypeAdapter, ValidationError

from collect.models.base import Sampling, Usage
from collect.models.config import OpenAIConfig, ResponsesConfig
from collect.models.endpoint_client import Api, Count, Part, Reply
from collect.models.finish_reasons import CALLS
from collect.models.received import (
    chat_fields,
    kept,
    own_items,
    sent_arguments,
    sent_text,
    without_empty,
    written_arguments,
)
from collect.store.messages import Message, ReplyTokens, ToolCall, ToolSchema, to_openai

EXCERPT = 200
"""Characters of an invalid call that an error quotes."""
_TOKENS = TypeAdapter(ReplyTokens)
MESSAGE_FIELDS = frozenset(
    (
        *("role", "content", "tool_calls", "reasoning_content", "reasoning"),
        *("refusal", "annotations", "audio", "function_call"),
    )
)
"""What every chat server gives, or none takes back; the rest of a reply is the server's own."""
CALL_FIELDS = frozenset(("id", "type", "index", "function"))
FUNCTION_FIELDS = frozenset(("name", "arguments"))


class _Details(Part):
    cached_tokens: Count | None = None

    def usage(self, prompt: int, completion: int, total: int | None) -> Usage:
        """Cached tokens are capped at the tokens sent: a wrong count would lower the cost. What the
        total has beyond the completion is reasoning, which some servers count apart.
        """
        written = max(completion, (total or 0) - prompt)
        return Usage(prompt, written, min(self.cached_tokens or 0, prompt))


class _Usage(Part):
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    total_tokens: Count | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: Count | None = None
    """DeepSeek's name for the cached tokens."""


class _Choice(Part):
    message: dict[str, Any]
    finish_reason: str | None = None
    native_finish_reason: Any = None
    """The word of the server behind OpenRouter."""
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
        if details.cached_tokens is None:
            details = _Details(cached_tokens=usage.prompt_cache_hit_tokens)
        written = usage.completion_tokens or 0
        return details.usage(usage.prompt_tokens, written, usage.total_tokens)

    @property
    def ended(self) -> str | None:
        choice = self.choices[0]
        native = str(choice.native_finish_reason or "")
        return native if "malformed" in native.lower() else choice.finish_reason

    @property
    def is_empty(self) -> bool:
        said = any(value for name, value in self.choices[0].message.items() if name != "role")
        return not said and self.tokens is not None and self.tokens.completion_tokens == 0

    def message(self, sampling: Sampling, id_prefix: str) -> Message:
        plain = self.choices[0].message
        content = plain.get("content")
        # Copilot gives the text and the calls of one reply as two choices.
        given = (choice.message.get("tool_calls") for choice in self.choices)
        calls = next(filter(None, given), None)
        if not isinstance(content, str | list | None):
            raise ValueError(f"the content is no text: {type(content).__name__}")
        if not isinstance(calls, list | None):
            raise ValueError(f"the tool calls are no list: {type(calls).__name__}")
        if not calls and isinstance(plain.get("function_call"), dict):
            calls = [{"function": plain["function_call"]}]  # of servers with the older API
        made = [call for call in calls or () if call is not None]
        tool_calls = [_read_call(call, f"{id_prefix}{index}") for index, call in enumerate(made)]
        return Message(
            role="assistant",
            content=_text(content) or _text(plain.get("refusal")),
            reasoning=_reasoning(plain) or None,
            tool_calls=tuple(tool_calls),
            provider_items=_own_fields(plain, made),
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
    streaming: Mapping[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}

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
    if message.role != "assistant":
        return sent
    own, of_calls = chat_fields(message)
    if not message.tool_calls:
        sent["content"] = sent_text(message)
    for call, plain in zip(message.tool_calls, sent.get("tool_calls", ()), strict=False):
        plain["function"]["arguments"] = sent_arguments(call)
    for plain, fields in zip(sent.get("tool_calls", ()), of_calls, strict=False):
        in_function = fields.get("function")
        if isinstance(in_function, dict):
            plain["function"] = in_function | plain["function"]
        plain.update(fields | plain)
    if reasoning_field:
        sent[reasoning_field] = message.reasoning or ""
    return own | sent


def _own_fields(message: dict[str, Any], calls: Sequence[dict[str, Any]]) -> str | None:
    """The fields of a reply and of its calls that only its server knows."""
    own = without_empty(message, MESSAGE_FIELDS)
    of_calls = []
    for call in calls:
        fields = without_empty(call, CALL_FIELDS)
        function = call.get("function")
        if isinstance(function, dict):
            in_function = without_empty(function, FUNCTION_FIELDS)
            fields |= {"function": in_function} if in_function else {}
        of_calls.append(fields)
    return kept("chat", {"message": own, "calls": of_calls}) if own or any(of_calls) else None


def _read_call(plain: Any, fallback_id: str) -> ToolCall:
    """A call; one without a name can still be answered as an invalid one."""
    function = plain.get("function", plain) if isinstance(plain, dict) else None
    if not isinstance(function, dict) or not function.keys() & FUNCTION_FIELDS:
        raise ValueError(f"a tool call is no function call: {str(plain)[:EXCERPT]}")
    call_id, name, arguments = plain.get("id"), function.get("name"), function.get("arguments")
    if not isinstance(call_id, str | int | None) or not isinstance(name, str | None):
        raise ValueError(f"a tool call has an id or a name that is none: {str(plain)[:EXCERPT]}")
    if not isinstance(arguments, str | None):
        arguments = written_arguments(arguments)
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


ITEM_FIELDS = frozenset(("type", "id", "status", "role", "content", "call_id", "name", "arguments"))
"""What a message or a call can have that a request without it says, too."""


class _ResponseUsage(Part):
    input_tokens: Count
    output_tokens: Count = 0
    total_tokens: Count | None = None
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
        usage = self.usage
        if usage is None:
            return None
        details = usage.input_tokens_details or _Details()
        return details.usage(usage.input_tokens, usage.output_tokens, usage.total_tokens)

    @property
    def ended(self) -> str | None:
        if reason := str((self.incomplete_details or {}).get("reason") or ""):
            return reason
        if self.status not in (None, "completed"):
            return self.status
        return CALLS if any(item.get("type") == "function_call" for item in self.output) else None

    @property
    def is_empty(self) -> bool:
        return not self.output and self.tokens is not None and self.tokens.completion_tokens == 0

    def message(self, sampling: Sampling, id_prefix: str) -> Message:
        items = self.output
        said = "".join(_texts(items, ("output_text", "refusal")))
        content = said
        for stop in sampling.stop or ():
            content = content.partition(stop)[0]
        calls: list[ToolCall] = []
        for item in items:
            if item.get("type") == "function_call":
                call = {"id": item.get("call_id"), "function": item}
                calls.append(_read_call(call, f"{id_prefix}{len(calls)}"))
        thoughts = _texts(items, ("summary_text", "reasoning_text"))
        # A reply that was cut is not sent back in its own form.
        own = content == said and not all(map(_is_plain, items))
        return Message(
            role="assistant",
            content=content,
            reasoning="\n\n".join(thoughts) or None,
            tool_calls=tuple(calls),
            provider_items=kept("responses", items) if own else None,
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


def _is_plain(item: Mapping[str, Any]) -> bool:
    """Whether the message or the call can be written anew, or there is nothing in the reasoning."""
    if item.get("type") == "reasoning":
        return not without_empty(item, ("type", "id", "status"))
    return item.get("type") in ("message", "function_call") and not without_empty(item, ITEM_FIELDS)


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
    if message.role == "assistant" and (own := _own(message)):
        return own
    items: list[dict[str, Any]] = []
    if message.role == "user":
        items.append({"role": message.role, "content": message.content})
    elif message.content.strip() or not message.tool_calls:
        items.append({"role": message.role, "content": sent_text(message)})
    return items + [_item(call) for call in message.tool_calls]


def _item(call: ToolCall) -> dict[str, Any]:
    made = {"call_id": call.id, "name": call.name, "arguments": sent_arguments(call)}
    return {"type": "function_call", **made}


def _own(message: Message) -> list[dict[str, Any]]:
    """A reply's own items, without reasoning that nothing follows, which the API refuses."""
    items = own_items(message, "responses", _item)
    while items and items[-1].get("type") == "reasoning":
        items.pop()
    return items
