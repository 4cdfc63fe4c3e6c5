"""A conversation whose replies come from a generator instead of a language model."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any, Protocol

from collect.messages import Message, ToolCall, ToolSchema
from collect.models.base import Completion, Sampling, Usage

Turns = Generator[Message, list[str], None]
"""Yields replies; is sent the observations of the calls in the reply before."""


class Script(Protocol):
    """One role in one conversation."""

    def turns(self, task: str) -> Turns:
        """The replies to a first user message, the last of them without a tool call."""

    def last_word(self) -> str:
        """The final answer, given what was seen so far: for when the steps are used up."""


class ScriptedModel:
    """A model that follows a script. It uses no tokens and costs nothing."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._turns: Turns | None = None

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        """The script's next reply."""
        started = time.monotonic()
        message = _with_unique_ids(self._next(messages), len(messages))
        reason = "tool_calls" if message.tool_calls else "stop"
        return Completion(message, Usage(), 0.0, time.monotonic() - started, reason)

    def _next(self, messages: Sequence[Message]) -> Message:
        if self._turns is None:
            self._turns = self._script.turns(messages[-1].content)
            return next(self._turns)
        if messages[-1].role == "user":
            return Message("assistant", self._script.last_word())
        return self._turns.send(_observations(messages))


def say(text: str, *calls: tuple[str, dict[str, Any]]) -> Message:
    """A reply with tool calls, given as (name, arguments)."""
    made = tuple(ToolCall("", name, json.dumps(arguments)) for name, arguments in calls)
    return Message("assistant", text, tool_calls=made)


def _with_unique_ids(message: Message, turn: int) -> Message:
    calls = tuple(
        replace(call, id=f"call_{turn}_{index}") for index, call in enumerate(message.tool_calls)
    )
    return replace(message, tool_calls=calls)


def _observations(messages: Sequence[Message]) -> list[str]:
    found: list[str] = []
    for message in reversed(messages):
        if message.role != "tool":
            break
        found.append(message.content)
    return found[::-1]
