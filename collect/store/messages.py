"""Messages between an agent and a model, stored exactly as sent and received."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from itertools import takewhile
from operator import eq
from typing import Annotated, Any, Literal

from pydantic import Field

from collect.store.thinking import split_thinking
from sandbox.text import storable

Role = Literal["system", "user", "assistant", "tool"]
ToolSchema = dict[str, Any]
"""One tool in OpenAI's form: {"type": "function", "function": {name, description, parameters}}."""

LEFT_OUT = "[a tool result of {count} characters is left out here: the context is full]"
"""What models are sent in place of it."""
STARTED = "\n\nStart of the debug session:\n"
"""What precedes the session's start in a Debug Subagent's task."""
BROKEN = (ValueError, RecursionError)
"""Errors on broken JSON; the second if a model repeats `[[[[`."""


def arguments_object(arguments: str) -> dict[str, Any]:
    """The arguments as chat templates and strict servers require them: always an object.

    vLLM, SGLang and others answer 400 or 500 if an earlier call's arguments are no JSON object
    (vllm issue 43995), so one mistake would end the conversation. Such text is wrapped in an
    object, where the model can still read it.
    """
    decoded = _object(arguments)
    return {"malformed_arguments": arguments} if decoded is None else decoded


def _object(arguments: str) -> dict[str, Any] | None:
    try:
        decoded = json.loads(arguments or "{}")
        # No request can hold NaN, infinity or half a character.
        json.dumps(decoded, ensure_ascii=False, allow_nan=False).encode()
    except BROKEN:
        return None
    return decoded if isinstance(decoded, dict) else None


@dataclass(frozen=True)
class ToolCall:
    """One call, as it is answered and sent back, with what the model said where that differs."""

    id: str
    """Unique in its conversation."""
    name: str
    arguments: str
    """The raw JSON text of the arguments as the model wrote them, valid or not."""
    said_id: str | None = None
    """The id that the server gave, if it can't be sent back or another call has it."""
    said_name: str | None = None
    """The name that the model wrote, if it can't be sent back; such a call is invalid."""

    @property
    def is_valid(self) -> bool:
        """Whether the arguments are a JSON object."""
        return _object(self.arguments) is not None

    def text(self, name: str) -> str:
        """A text argument; empty if the arguments are no JSON object with it."""
        text = arguments_object(self.arguments).get(name)
        return text if isinstance(text, str) else ""

    def storable(self) -> ToolCall:
        """A copy in storable text."""
        return replace(
            self,
            id=storable(self.id),
            name=storable(self.name),
            arguments=storable(self.arguments),
            said_id=self.said_id and storable(self.said_id),
            said_name=self.said_name and storable(self.said_name),
        )


@dataclass(frozen=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str = ""
    reasoning: str | None = None
    """The model's separate reasoning text, if its server provides it."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """For role `tool`: the call that this answers."""
    name: str | None = None
    """For role `tool`: the tool's name."""
    provider_items: str | None = None
    """What the server of a reply may want back unchanged, as JSON in its API's form: signed or
    encrypted reasoning, fields of its own.
    """

    @property
    def said(self) -> str:
        """The content without the reasoning that a server left in it."""
        return split_thinking(self.content)[1] if self.role == "assistant" else self.content

    @property
    def thought(self) -> str:
        """The reasoning, separate or in the content; empty if there is none."""
        inside = split_thinking(self.content)[0] if self.role == "assistant" else ""
        separate = self.reasoning or ""
        return "\n\n".join(filter(None, (separate, "" if inside in separate else inside)))

    def storable(self) -> Message:
        """A copy in storable text."""
        return replace(
            self,
            content=storable(self.content),
            reasoning=self.reasoning and storable(self.reasoning),
            provider_items=self.provider_items and storable(self.provider_items),
            tool_calls=tuple(call.storable() for call in self.tool_calls),
            tool_call_id=self.tool_call_id and storable(self.tool_call_id),
            name=self.name and storable(self.name),
        )


TokenId = Annotated[int, Field(ge=0, lt=2**31)]
LogProbability = Annotated[float, Field(allow_inf_nan=False)]


@dataclass(frozen=True)
class ReplyTokens:
    """A reply and its prompt in tokens of its model, for training without tokenizing again.

    A prompt repeats most of the conversation. With `seen`, the prompt and the reply of the last
    reply that has tokens, it is `seen[:kept] + prompt_ids`.
    """

    prompt_ids: tuple[TokenId, ...]
    """What the prompt has after its first `kept` tokens."""
    token_ids: tuple[TokenId, ...]
    """The reply as it was sampled: reasoning, calls and the token that ended it included."""
    logprobs: tuple[LogProbability, ...]
    """The natural logarithm of the probability of each of `token_ids`, as the server gave it."""
    kept: int = 0

    def after(self, seen: tuple[int, ...]) -> ReplyTokens:
        """A whole prompt without what it shares with the beginning of `seen`."""
        kept = sum(takewhile(bool, map(eq, seen, self.prompt_ids)))
        return replace(self, prompt_ids=self.prompt_ids[kept:], kept=kept)


def to_openai(message: Message) -> dict[str, Any]:
    """The message in OpenAI's chat-completions form, arguments as the raw string."""
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        plain["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in message.tool_calls
        ]
        plain["content"] = message.content or None
    if message.role == "tool":
        plain["tool_call_id"] = message.tool_call_id
        plain["name"] = message.name
    return plain
