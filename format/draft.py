"""A conversation while it is written anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from collect.agents.tools import ToolReply
from collect.messages import Message, Role, ToolCall
from collect.records import EventRow, MessageRow
from sandbox.debugger import DebugEvent


@dataclass
class Draft:
    """Its messages and events so far."""

    rows: list[MessageRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)

    def say(self, role: Role, content: str) -> None:
        """Add a message that took nothing."""
        self.rows.append(MessageRow(Message(role, content)))

    def reply(self, original: MessageRow, content: str, calls: Sequence[ToolCall] = ()) -> None:
        """Add an assistant's message in place of one, whose reasoning and costs it keeps."""
        reasoning = original.message.reasoning
        message = Message("assistant", content, reasoning, tool_calls=tuple(calls))
        self.rows.append(replace(original, message=message))

    def answer(self, call: ToolCall, reply: ToolReply) -> None:
        """Add a tool's answer."""
        message = Message("tool", reply.text, tool_call_id=call.id, name=call.name)
        self.rows.append(MessageRow(message, tool_outcome=reply.outcome))

    def note(self, index: int, call_id: str, events: Sequence[DebugEvent]) -> None:
        """Add the events of a call of the message at an index."""
        self.events += [EventRow(index, call_id, event) for event in events]

    @property
    def last_index(self) -> int:
        """Of the newest message."""
        return len(self.rows) - 1
