"""A conversation whose replies come from a generator instead of a language model."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

import yaml

from collect.agents.inspectcoder.react import ActionCall, TerminalForm
from collect.agents.prompts import prompt
from collect.models.base import Completion, Sampling, Usage
from collect.store.messages import STARTED, Message, ToolCall, ToolSchema

PHRASES: Mapping[str, Sequence[str]] = yaml.safe_load(
    Path(__file__).with_name("phrases.yaml").read_text(encoding="utf-8")
)
Turns = Generator[Message, list[str], None]
"""Yields replies; receives the observations of the previous reply's calls."""


class Script(Protocol):
    """The script of one role in one conversation."""

    def turns(self, task: str) -> Turns:
        """The replies to a first user message; the last one has no tool call."""

    def last_word(self) -> str:
        """The final answer from what has been seen so far, once the steps are used up."""


class ScriptedModel:
    """A model that follows a script. It uses no tokens and costs nothing.

    Without tools it acts in text: it writes its calls into an action block, and the next user
    message is the observation of all of them.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self._turns: Turns | None = None

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        """The script's next reply."""
        started = time.monotonic()
        message = self._next(messages, tools)
        made = message.tool_calls
        if made and not tools:
            # The ReAct form (InspectCoder, listing 1).
            calls = [ActionCall(call.name, json.loads(call.arguments)) for call in made]
            block = "\n".join(map(TerminalForm.write, calls))
            text = f"### THOUGHT\n{message.content}\n### ACTION\n```debugger\n{block}\n```"
            message = Message("assistant", text)
        elif made:
            turn = len(messages)
            named = [replace(call, id=f"call_{turn}_{index}") for index, call in enumerate(made)]
            message = replace(message, tool_calls=tuple(named))
        reason = "tool_calls" if message.tool_calls else "stop"
        return Completion(message, Usage(), 0.0, time.monotonic() - started, reason)

    def _next(self, messages: Sequence[Message], tools: Sequence[ToolSchema]) -> Message:
        """The next reply that the agent's instructions allow: without calls of tools that it does
        not have, as if it had made them, and without the question if answers don't repeat it."""
        message = self._move(messages, not tools)
        offered = {each["function"]["name"] for each in tools}
        while tools and message.tool_calls and message.tool_calls[0].name not in offered:
            assert self._turns is not None
            message = self._turns.send([""])
        if messages[0].role == "system" and "**Question**" not in messages[0].content:
            text = QUESTION_LINE.sub("<debug_answer>\n", message.content)
            message = replace(message, content=text)
        return message

    def _move(self, messages: Sequence[Message], in_text: bool) -> Message:
        said = messages[-1]
        if self._turns is None:
            task = next(each.content for each in messages if each.role == "user")
            if any(each.role == "assistant" for each in messages):
                # In a relay the student has moved on from where the session was started.
                task = task.partition(STARTED)[0]
            self._turns = self._script.turns(task)
            return next(self._turns)
        forced = said.content == prompt("inspectcoder/forced_plan")
        if said.role == "user" and (forced or not in_text):
            return Message("assistant", self._script.last_word())
        answers = takewhile(lambda each: each.role == "tool", reversed(messages))
        observations = [each.content for each in answers][::-1]
        try:
            return self._turns.send([said.content] if said.role == "user" else observations)
        except StopIteration:
            return Message("assistant", self._script.last_word())


def say(text: str, *calls: tuple[str, dict[str, Any]]) -> Message:
    """A reply with tool calls, given as (name, arguments)."""
    made = tuple(ToolCall("", name, json.dumps(arguments)) for name, arguments in calls)
    return Message("assistant", text, tool_calls=made)


QUESTION_LINE = re.compile(
    r"<debug_answer>\n\*\*Question\*\*: (?:(?!<debug_answer>).)*?\n(?=\*\*Answer\*\*)", re.DOTALL
)


def answer_block(question: str, answer: str, evidence: str, location: str) -> str:
    """A Debug Subagent's final answer."""
    return (
        f"<debug_answer>\n**Question**: {question}\n**Answer**: {answer}\n"
        f"**Evidence**: {evidence or 'none'}\n**Location**: {location}\n</debug_answer>"
    )


@dataclass(frozen=True)
class ExplorationPolicy:
    """The oracle's random choices when it debugs: wordings and detours."""

    rng: random.Random
    direct: bool = False
    """Whether it only takes the shortest way."""

    def detour(self, chance: float) -> bool:
        """Whether to do something optional, with this probability."""
        return self.rng.random() < chance and not self.direct
