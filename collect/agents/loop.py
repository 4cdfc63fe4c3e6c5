"""The agent loop: ask the model, carry out its calls, until it answers without one."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

from collect.agents.conversation import ConversationLog
from collect.agents.tools import Toolbox
from collect.errors import RolloutStopped
from collect.messages import Message, ToolCall
from collect.models.base import Model, Sampling
from collect.records import MessageRow, StopReason


@dataclass(frozen=True)
class AgentSpec:
    """An agent: what distinguishes it from every other one. The loop is the same for all."""

    system_prompt: str
    toolbox: Toolbox
    max_steps: int
    """Completions, the forced final answer not counted."""
    forced_answer: str | None = None
    """User message injected once the steps are used up, answered without tools
    (Debug2Fix, section 5.5). None: the agent just ends."""
    reminder: Callable[[str], str | None] = lambda answer: None
    """Given a final answer, what to remind the agent of if the answer's form is wrong."""
    max_reminders: int = 0


@dataclass(frozen=True)
class AgentRun:
    """One agent at work: the agent, its model, its log, and the run's stop signal."""

    spec: AgentSpec
    model: Model
    sampling: Sampling
    log: ConversationLog
    stop: Event

    def run(self, task: str) -> StopReason:
        """Hold the conversation to its end. The log has it all, also where this raises.

        Raises RolloutError, RolloutStopped, SandboxError.
        """
        self.log.add(Message("system", self.spec.system_prompt))
        self.log.add(Message("user", task))
        reminders = self.spec.max_reminders
        for _ in range(self.spec.max_steps):
            reply = self._ask()
            if reply.tool_calls:
                self._answer_calls(reply)
                continue
            reminder = self.spec.reminder(reply.content) if reminders else None
            if reminder is None:
                return self.log.finish(StopReason.FINISHED)
            reminders -= 1
            self.log.add(Message("user", reminder))
        if self.spec.forced_answer is not None:
            self.log.add(Message("user", self.spec.forced_answer))
            self._ask()
        return self.log.finish(StopReason.STEP_LIMIT)

    def _raise_if_stopped(self) -> None:
        if self.stop.is_set():
            raise RolloutStopped("the run is being stopped")

    def _ask(self) -> Message:
        self._raise_if_stopped()
        completion = self.model.complete(self.log.sent(), self.log.tools, self.sampling)
        self.log.add_completion(completion)
        return completion.message

    def _answer_calls(self, reply: Message) -> None:
        index = self.log.last_index
        for call in reply.tool_calls:
            self._raise_if_stopped()
            self._answer_call(call, index)

    def _answer_call(self, call: ToolCall, index: int) -> None:
        started = time.monotonic()
        answer = self.spec.toolbox.call(call)
        seconds = time.monotonic() - started
        message = Message("tool", answer.text, tool_call_id=call.id, name=call.name)
        self.log.add_row(MessageRow(message, seconds=seconds, tool_outcome=answer.outcome))
        if answer.event is not None:
            self.log.add_event(index, call.id, answer.event)
