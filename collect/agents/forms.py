"""How a model acts: by tool calls, or in its text, depending on the system's paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from collect.agents.tools import ToolReply
from collect.store.messages import Message, ToolCall
from collect.store.records import MessageRow, ToolOutcome

OK = ToolOutcome.OK


class MalformedAction(Exception):
    """A reply with an unreadable action; the message tells the model what is wrong."""


@dataclass(frozen=True)
class Answered:
    """An executed call and its result."""

    call: ToolCall
    reply: ToolReply
    seconds: float


class ActionForm:
    """A way to make calls and to receive their results: by default in the model's text, all calls
    of a reply answered in one message of the user's."""

    by_tools = False
    """Whether tool schemas are sent to the model."""
    stop: tuple[str, ...] = ()
    """Texts at which the model stops, because only the environment may write them."""
    stops_at_error = True
    """Whether the calls after a failed one are skipped."""

    def calls(self, reply: Message, step: int) -> Sequence[ToolCall]:
        """The calls of a reply; if there are none, it is a final answer. Raises MalformedAction."""
        raise NotImplementedError

    def observation(self, answered: Sequence[Answered], left_out: int, steps_left: int) -> str:
        """The text of the message for all calls. `left_out` more were skipped after an error."""
        raise NotImplementedError

    def answered(self, answered: Answered) -> MessageRow | None:
        """The message for one call's result, if each call has its own."""
        return None

    def all_answered(
        self, answered: Sequence[Answered], left_out: int, steps_left: int
    ) -> MessageRow | None:
        """The message for all calls of a reply, if they share one. Its outcome is the last that is
        not OK."""
        text = self.observation(answered, left_out, steps_left)
        outcomes = [each.reply.outcome for each in answered if each.reply.outcome is not OK]
        seconds = sum(each.seconds for each in answered)
        outcome = outcomes[-1] if outcomes else OK
        return MessageRow(Message("user", text), seconds=seconds, tool_outcome=outcome)


class ToolCalling(ActionForm):
    """The API's own tool calls, each answered in a separate message."""

    by_tools = True
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
