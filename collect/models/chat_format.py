"""Conversations to prompts by a tokenizer's chat template, and replies back to messages."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from typing import Any

import jinja2

from collect.errors import ConfigError, LocalModelFailed
from collect.models.tool_parsing import arguments_object, parse_hermes
from collect.store.messages import Message, ToolCall, ToolSchema, to_openai

_MARK = "stepinto_mark"
_PROBE_TOOL: ToolSchema = {
    "type": "function",
    "function": {
        "name": _MARK,
        "description": "",
        "parameters": {"type": "object", "properties": {}},
    },
}


class ChatFormat:
    """What a tokenizer knows of conversations. Thread-safe, unlike a fast tokenizer."""

    def __init__(self, tokenizer: Any, where: str) -> None:
        """`where` names the model in errors. Raises ConfigError without a template for tools."""
        self._tokenizer = tokenizer
        self._where = where
        self._lock = threading.Lock()
        if not tokenizer.chat_template or _MARK not in self._render(
            [{"role": "user", "content": "hello"}], [_PROBE_TOOL]
        ):
            raise ConfigError(
                f"the chat template of {where} shows the model no tools; set `chat_template` to a "
                "Jinja file that does, the one which the model was trained with"
            )

    def prompt(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> str:
        """The text that the model continues. Raises LocalModelFailed."""
        plain = [_template_message(message) for message in messages]
        try:
            with self._lock:
                return self._render(plain, tools)
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise LocalModelFailed(
                f"the chat template of {self._where} does not take this conversation: {error}. "
                "What to do: set `chat_template` to one that does"
            ) from error

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids, with no special tokens but those in the text."""
        with self._lock:
            return tuple(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, the special ones included."""
        with self._lock:
            return str(self._tokenizer.decode(ids, skip_special_tokens=False))

    def end_ids(self) -> set[int]:
        """The tokens that end a turn: the tokenizer's, and what the template writes after one."""
        ids = {self._tokenizer.eos_token_id} - {None}
        turn = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": _MARK}]
        rendered = self._render(turn, [], add_generation_prompt=False)
        following = self.encode(rendered.rpartition(_MARK)[2])
        special = set(self._tokenizer.added_tokens_decoder)
        return ids | ({following[0]} & special if following else set())

    def read(
        self, prompt: str, ids: Sequence[int], tools: Sequence[ToolSchema], id_prefix: str
    ) -> Message:
        """The message that the generated tokens are."""
        with self._lock:
            text = self._tokenizer.decode(
                ids, skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
            by_template = self._by_response_template(prompt, text, tools)
        content, calls = parse_hermes(text, id_prefix)
        hermes = Message("assistant", content, tool_calls=calls)
        if by_template is None:
            return hermes
        message = _message(by_template, id_prefix)
        # The template gives decoded arguments; where both agree, keep the raw text.
        same = _decoded(message.tool_calls) == _decoded(calls)
        raw_calls = calls if same else message.tool_calls
        return Message("assistant", message.content, message.reasoning, raw_calls)

    def _by_response_template(
        self, prompt: str, text: str, tools: Sequence[ToolSchema]
    ) -> dict[str, Any] | None:
        """The reply by the tokenizer's own response template (transformers >= 5.13).

        None where it has none, or where the reply does not fit it: broken calls, mostly.
        """
        if getattr(self._tokenizer, "response_template", None) is None:
            return None
        try:
            parsed = self._tokenizer.parse_response(text, prefix=prompt, tools=list(tools))
        except (ValueError, KeyError, TypeError):
            return None
        calls = parsed.get("tool_calls") or []
        named = all(isinstance(call.get("function", call).get("name"), str) for call in calls)
        return parsed if named else None

    def _render(
        self,
        messages: Sequence[dict[str, Any]],
        tools: Sequence[ToolSchema],
        add_generation_prompt: bool = True,
    ) -> str:
        rendered: str = self._tokenizer.apply_chat_template(
            list(messages),
            tools=list(tools) or None,
            add_generation_prompt=add_generation_prompt,
            tokenize=False,
        )
        return rendered


def _template_message(message: Message) -> dict[str, Any]:
    """As chat templates expect it: content always text, arguments always an object."""
    plain = to_openai(message) | {"content": message.content}
    for call in plain.get("tool_calls", ()):
        call["function"]["arguments"] = arguments_object(call["function"]["arguments"])
    if message.reasoning:
        plain["reasoning_content"] = message.reasoning
    return plain


def _message(parsed: dict[str, Any], id_prefix: str) -> Message:
    """From the plain message of `parse_response`."""
    calls = []
    for index, call in enumerate(parsed.get("tool_calls") or ()):
        function = call.get("function", call)
        arguments = function.get("arguments")
        raw = json.dumps({} if arguments is None else arguments, ensure_ascii=False)
        calls.append(ToolCall(f"{id_prefix}{index}", function["name"], raw))
    reasoning = parsed.get("reasoning_content") or parsed.get("thinking")
    content = parsed.get("content") or ""
    return Message("assistant", content.strip() if calls else content, reasoning, tuple(calls))


def _decoded(calls: Sequence[ToolCall]) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, arguments_object(call.arguments)) for call in calls]
