"""How a model says what to do: by tool calls, or in its text, as each system's paper has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from collect.agents.tools import ToolReply
from collect.store.messages import Message, ToolCall
from collect.store.records import MessageRow, ToolOutcome


class MalformedAction(Exception):
    """A reply whose action can't be read; the message tells the model what is wrong with it."""


@dataclass(frozen=True)
class Answered:
    """A call that was carried out, and what came of it."""

    call: ToolCall
    reply: ToolReply
    seconds: float


class ActionForm(Protocol):
    """One way of saying what to do, and of being told what came of it."""

    @property
    def by_tools(self) -> bool:
        """Whether the tools are sent to the model as such."""

    @property
    def stop(self) -> tuple[str, ...]:
        """Texts at which the model is to stop: what only the environment may say."""

    @property
    def stops_at_error(self) -> bool:
        """Whether the calls after one that failed are left out."""

    def calls(self, reply: Message, step: int) -> Sequence[ToolCall]:
        """The calls of a reply; none: it is a final answer. Raises MalformedAction."""

    def answered(self, answered: Answered) -> MessageRow | None:
        """The message that tells of one call, where each has its own."""

    def all_answered(
        self, answered: Sequence[Answered], left_out: int, steps_left: int
    ) -> MessageRow | None:
        """The message that tells of all calls of a reply, where they have one together."""


class ToolCalling:
    """The API's own tool calls, each answered by a message of its own."""

    by_tools = True
    stop: tuple[str, ...] = ()
    stops_at_error = False

    def calls(self, reply: Message, step: int) -> Sequence[ToolCall]:
        return reply.tool_calls

    def answered(self, answered: Answered) -> MessageRow | None:
        call, reply = answered.call, answered.reply
        message = Message("tool", reply.text, tool_call_id=call.id, name=call.name)
        return MessageRow(message, seconds=answered.seconds, tool_outcome=reply.outcome)

    def all_answered(
        self, answered: Sequence[Answered], left_out: int, steps_left: int
    ) -> MessageRow | None:
        return None


def worst(answered: Sequence[Answered]) -> ToolOutcome:
    """The outcome of several calls together: the last that is not OK, else OK."""
    outcomes = [each.reply.outcome for each in answered]
    return next((each for each in reversed(outcomes) if each is not ToolOutcome.OK), ToolOutcome.OK)
