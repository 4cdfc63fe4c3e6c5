"""The agent loop: ask the model and execute its calls, until it answers without one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event

from collect.agents.conversation import ConversationLog
from collect.agents.debug_tools import placed, withheld
from collect.agents.tools import ActionForm, Answered, MalformedAction, Toolbox, ToolCalling
from collect.errors import ContextTooLong, ModelFailure, RolloutStopped
from collect.models.base import Model, Sampling
from collect.store.messages import Message, ToolCall
from collect.store.records import MessageRow, StopReason, ToolOutcome

TOOL_CALLING = ToolCalling()
MAX_CALLS = 128
"""Maximum calls in a reply; a reply counts as one step, however long its calls take."""


@dataclass(frozen=True)
class AgentSpec:
    """What distinguishes one agent from another. The loop is the same for all."""

    system_prompt: str
    toolbox: Toolbox
    max_steps: int
    """Completions per task, not counting the forced final answer."""
    forced_answer: str | None = None
    """User message sent once the steps are used up, answered without tools (Debug2Fix, section
    5.5). None: the agent just ends.
    """
    follow_up: Callable[[str], str | None] = lambda answer: None
    """Maps a final answer to the user's next message; None ends the conversation."""
    max_follow_ups: int = 0
    concluding: str | None = None
    """The tool that gives the final answer, also when it is forced."""
    form: ActionForm = TOOL_CALLING


@dataclass(frozen=True)
class AgentRun:
    """A running agent: its spec, model, log and the run's stop signal."""

    spec: AgentSpec
    model: Model
    sampling: Sampling
    log: ConversationLog
    stop: Event
    context_tokens: int | None = None
    """Maximum tokens of a request; the oldest tool results are left out of a longer one."""

    def run(self, task: str) -> StopReason:
        """Run the conversation to its end; a further call continues it with another task.

        The log is complete even if this raises RolloutError, RolloutStopped, SandboxError.
        """
        if not self.log.rows:
            self.log.add(Message("system", self.spec.system_prompt))
        self.log.add(Message("user", task))
        follow_ups = self.spec.max_follow_ups
        for steps_left in reversed(range(self.spec.max_steps)):
            reply = self._ask()
            if self._act(reply, steps_left):
                if self.log.conclusion is not None:
                    return self.log.finish(StopReason.FINISHED)
                continue
            said = self.spec.follow_up(reply.content) if follow_ups else None
            if said is None:
                return self.log.finish(StopReason.FINISHED)
            follow_ups -= 1
            self.log.add(Message("user", said))
        if self.spec.forced_answer is not None:
            self.log.add(Message("user", self.spec.forced_answer))
            for call in self._ask(tools=self.spec.concluding is not None).tool_calls:
                if call.name == self.spec.concluding:
                    self._carry_out(call, self.log.last_index)
        return self.log.finish(StopReason.STEP_LIMIT)

    def _raise_if_stopped(self) -> None:
        if self.stop.is_set():
            raise RolloutStopped("the run is being stopped")

    def _ask(self, tools: bool = True) -> Message:
        self._raise_if_stopped()
        sampling = self.sampling
        if not tools:
            sampling = sampling.model_copy(update={"tool_choice": "none"})
        if self.spec.form.stop:
            sampling = sampling.model_copy(update={"stop": self.spec.form.stop})
        if self.context_tokens is not None:
            self.log.fit(self.context_tokens)
        try:
            completion = self.model.complete(self.log.sent(), self.log.tools, sampling)
        except ContextTooLong:
            if not self.log.make_room():
                raise
            completion = self.model.complete(self.log.sent(), self.log.tools, sampling)
        return self.log.add_completion(completion)

    def _act(self, reply: Message, steps_left: int) -> bool:
        """Execute a reply's calls; returns whether there were any, valid or malformed."""
        form = self.spec.form
        try:
            calls = form.calls(reply, self.log.steps)
        except MalformedAction as error:
            message = Message("user", str(error))
            self.log.add_row(MessageRow(message, tool_outcome=ToolOutcome.INVALID))
            return True
        if len(calls) > MAX_CALLS:
            raise ModelFailure(f"a reply has {len(calls)} calls, more than {MAX_CALLS}")
        index, answered = self.log.last_index, list[Answered]()
        for call in calls:
            self._raise_if_stopped()
            answered.append(self._carry_out(call, index, answered))
            outcome = answered[-1].reply.outcome
            if self.log.conclusion is not None or (
                form.stops_at_error and outcome is not ToolOutcome.OK
            ):
                break
        if answered and self.log.conclusion is None:
            row = form.all_answered(answered, len(calls) - len(answered), steps_left)
            if row is not None:
                self.log.add_row(row)
        return bool(calls)

    def _carry_out(self, call: ToolCall, index: int, earlier: Sequence[Answered] = ()) -> Answered:
        """Execute a call. `earlier` are those before it in the same message."""
        started = time.monotonic()
        reply = withheld(call, earlier) or placed(call, self.spec.toolbox.call(call), earlier)
        answered = Answered(call, reply, time.monotonic() - started)
        self.log.note(answered.call, reply, index, answered.seconds)
        row = self.spec.form.answered(answered)
        if row is not None:
            self.log.add_row(row)
        return answered
