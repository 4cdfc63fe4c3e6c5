"""The log of a conversation while it is held."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from collect.agents.tools import ToolReply
from collect.models.base import Completion, Usage
from collect.rollout_log import NO_LOG, Fact, RolloutLog
from collect.store.messages import Message, ToolCall, ToolSchema
from collect.store.records import EventRow, MessageRow, Role, StopReason, ToolOutcome
from sandbox.debugger import Action

STARTS = (Action.START, Action.RESTART)
MAX_NAME_CHARS = 80
"""Of a tool, as the model called it."""


@dataclass
class ConversationLog:
    """Everything one agent sent and received, in order."""

    index: int
    """Within the rollout."""
    role: Role
    model: str
    teacher: str
    sampling: str
    tools: Sequence[ToolSchema]
    parent_index: int | None = None
    parent_call_id: str | None = None
    patch_attempt: int = 0
    """Which patch it works towards, from 1; 0 where the system does not count them."""
    conclusion: str | None = None
    """The final answer, where an action gave it and not the last message's text."""
    rows: list[MessageRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    actions: Counter[str] = field(default_factory=Counter)
    """How often each action was called."""
    usage: Usage = field(default_factory=Usage)
    dollars: float = 0.0
    steps: int = 0
    stop_reason: StopReason = StopReason.FAILURE
    rollout_log: RolloutLog = NO_LOG

    @property
    def last_index(self) -> int:
        """Index of the newest message."""
        return len(self.rows) - 1

    @property
    def final_answer(self) -> str:
        """What the agent came to; without a conclusion the text of the last message, where that
        is the model's."""
        if self.conclusion is not None:
            return self.conclusion
        last = self.rows[-1].message if self.rows else None
        return last.content if last is not None and last.role == "assistant" else ""

    @property
    def tools_json(self) -> str:
        """The tools as they are sent."""
        return json.dumps(list(self.tools))

    def sent(self) -> list[Message]:
        """The conversation so far, as the model gets it."""
        return [row.message for row in self.rows]

    def add(self, message: Message) -> None:
        """Note a message that took nothing."""
        self.add_row(MessageRow(message))

    def add_row(self, row: MessageRow) -> None:
        """Note a message with what it took, in the text that the store holds: nothing else is
        sent to a model."""
        self.rows.append(replace(row, message=row.message.storable()))

    def add_completion(self, completion: Completion) -> Message:
        """Note a model's reply, its tokens and its price; the reply as it is noted."""
        self.steps += 1
        self.usage += completion.usage
        self.dollars += completion.dollars
        self.add_row(
            MessageRow(
                completion.message,
                prompt_tokens=completion.usage.prompt_tokens,
                completion_tokens=completion.usage.completion_tokens,
                cached_tokens=completion.usage.cached_tokens,
                dollars=completion.dollars,
                seconds=completion.seconds,
                finish_reason=completion.finish_reason,
            )
        )
        self._tell(
            "replied",
            step=self.steps - 1,
            seconds=completion.seconds,
            prompt_tokens=completion.usage.prompt_tokens,
            completion_tokens=completion.usage.completion_tokens,
            dollars=completion.dollars,
            finish_reason=completion.finish_reason,
        )
        return self.rows[-1].message

    def note(self, call: ToolCall, reply: ToolReply, message_index: int, seconds: float) -> None:
        """Note what a call of the message at that index has done."""
        if reply.outcome is not ToolOutcome.INVALID:
            self.actions[reply.action or call.name] += 1
        for event in (reply.event, *reply.later_events):
            if event is not None:
                self.add_event(EventRow(message_index, call.id, event))
        if reply.conclusion is not None:
            self.conclusion = reply.conclusion
        name, outcome = call.name[:MAX_NAME_CHARS], reply.outcome.value
        self._tell("tool_called", name=name, seconds=seconds, outcome=outcome)

    def add_event(self, row: EventRow) -> None:
        """Note what the debugger did."""
        self.events.append(row)
        event = row.event
        if event.action in STARTS and event.error_kind is None:
            self._tell("debug_started", state=event.state.value, seconds=event.seconds)

    def _tell(self, event: str, **facts: Fact) -> None:
        self.rollout_log.note(event, role=self.role.value, conversation=self.index, **facts)

    def finish(self, reason: StopReason) -> StopReason:
        """Note why the conversation ended."""
        self.stop_reason = reason
        return reason

    def count(self, outcome: ToolOutcome) -> int:
        """How many tool calls came to this outcome."""
        return sum(row.tool_outcome is outcome for row in self.rows)
