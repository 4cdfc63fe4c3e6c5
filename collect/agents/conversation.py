"""An agent's conversation: its log, and the loop that asks the model and executes its calls, until
it answers without one."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

from collect.agents.subagent_task import parse_answer
from collect.agents.tools import ActionForm, Answered, MalformedAction, TextForm, Toolbox, ToolReply
from collect.benchmarks.base import Instance
from collect.console import NO_LOG, Fact, RolloutLog
from collect.errors import ContextTooLong, ModelFailure, RequestRefused
from collect.models.base import Completion, Model, Sampling, Usage
from collect.models.finish_reasons import LENGTH, MALFORMED_CALL
from collect.models.received import received
from collect.models.tool_parsing import parse_calls
from collect.store.messages import LEFT_OUT, Message, ToolCall, ToolSchema
from collect.store.records import (
    SCHEMA_VERSION,
    Conversation,
    EventRow,
    MessageRow,
    Role,
    StopReason,
    ToolOutcome,
)
from collect.threads import raise_if_stopped
from sandbox.debugger import Action

STARTS = (Action.START, Action.RESTART)
CHARS_PER_TOKEN = 4.0
"""Of models whose servers don't report tokens."""
ROOM = 0.7
"""Share of a context budget that is left filled once it is exceeded, so that the server's cache of
the prompt holds for some requests.
"""
SMALLEST_CONTEXT = 2_500
"""Tokens of a conversation that may be too long for a server which does not say why it refuses it.
"""
MALFORMED = (
    "Your last reply had a tool call that can't be read, and nothing was done. Call a tool by its "
    "name, with arguments that are a JSON object."
)
CUT = (
    "Your last reply reached the limit of its length before it had text or a tool call. Think "
    "less, then call a tool or answer."
)
CUT_TEXT = (
    "Your last reply was cut at the limit of its length. Be brief: call a tool, or give the whole "
    "answer."
)
EMPTY = "Your last reply has no text and no tool call. Call a tool, or answer."
WRITTEN = (
    "Your last reply has a tool call in its text, where it is not carried out. Make the call "
    "itself, or answer."
)
MAX_NAME_CHARS = 80
"""Maximum length of a tool name sent by the model."""
MAX_CALLS = 128
"""Maximum calls in a reply; a reply counts as one step, however long its calls take."""


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
    """The patch that it works on, from 1; 0 if the system does not count patches."""
    conclusion: str | None = None
    """The final answer, if an action gave it instead of the last message."""
    rows: list[MessageRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    actions: Counter[str] = field(default_factory=Counter)
    """Number of calls by action."""
    usage: Usage = field(default_factory=Usage)
    dollars: float = 0.0
    steps: int = 0
    max_steps: int = 0
    """Completions per task, as in AgentSpec."""
    stop_reason: StopReason = StopReason.FAILURE
    elided: set[int] = field(default_factory=set)
    """Indexes of the tool results that are no longer sent."""
    chars_per_token: float = CHARS_PER_TOKEN
    """Of the last request."""
    seen_tokens: tuple[int, ...] = ()
    """The prompt and the reply of the last reply with tokens."""
    rollout_log: RolloutLog = NO_LOG

    @property
    def final_answer(self) -> str:
        """The conclusion, else what the last message says if the model wrote it."""
        if self.conclusion is not None:
            return self.conclusion
        last = self.rows[-1].message if self.rows else None
        return last.said if last is not None and last.role == "assistant" else ""

    def sent(self) -> list[Message]:
        """The conversation so far, as sent to the model."""
        return [
            _without_content(row.message) if index in self.elided else row.message
            for index, row in enumerate(self.rows)
        ]

    def fit(self, tokens: int) -> None:
        """Leave out the oldest tool results if the next request would have more tokens."""
        if self._sent_chars() > tokens * self.chars_per_token:
            self.make_room(ROOM * tokens * self.chars_per_token)

    def make_room(self, chars: float | None = None) -> bool:
        """Leave out the oldest tool results until the next request has at most so many characters,
        by default half of what it has now. The results since the last reply stay; by default they
        are left out too, if nothing older can be. Returns whether any was left out.
        """
        wanted = self._sent_chars() / 2 if chars is None else chars
        replies = [at for at, row in enumerate(self.rows) if row.message.role == "assistant"]
        last = replies[-1] if replies else 0
        if self._leave_out(range(last), wanted):
            return True
        return chars is None and self._leave_out(range(last, len(self.rows)), wanted)

    def _leave_out(self, indexes: Iterable[int], wanted: float) -> bool:
        """Leave out the tool results among these messages, in order, down to so many characters."""
        left, before = self._sent_chars(), len(self.elided)
        for index in indexes:
            message = self.rows[index].message
            saved = len(message.content) - len(_without_content(message).content)
            if index in self.elided or message.role != "tool" or saved <= 0:
                continue
            if left > wanted:
                left -= saved
                self.elided.add(index)
        return len(self.elided) > before

    @property
    def may_be_too_long(self) -> bool:
        """Whether the next request may have more tokens than a model takes."""
        return self._sent_chars() > SMALLEST_CONTEXT * self.chars_per_token

    def _sent_chars(self) -> int:
        return sum(
            len(message.content) + sum(len(call.arguments) for call in message.tool_calls)
            for message in self.sent()
        )

    def add(self, message: Message) -> None:
        """Add a message without cost."""
        self.add_row(MessageRow(message))

    def add_row(self, row: MessageRow) -> None:
        """Add a message with its cost, in storable text: models are sent exactly what the store
        holds.
        """
        self.rows.append(replace(row, message=row.message.storable()))

    def add_completion(self, completion: Completion) -> Message:
        """Add a model's reply with its tokens and price; returns the reply as stored."""
        self.steps += 1
        self.usage += completion.usage
        if (prompt := completion.usage.prompt_tokens - completion.replaced_tokens) > 0:
            self.chars_per_token = self._sent_chars() / prompt
        self.dollars += completion.dollars
        tokens = completion.tokens
        if tokens is not None:
            seen, self.seen_tokens = self.seen_tokens, tokens.prompt_ids + tokens.token_ids
            tokens = tokens.after(seen)
        facts: dict[str, Any] = {
            "seconds": completion.seconds,
            "prompt_tokens": completion.usage.prompt_tokens,
            "completion_tokens": completion.usage.completion_tokens,
            "dollars": completion.dollars,
            "finish_reason": completion.finish_reason,
        }
        used = {call.id for row in self.rows for call in row.message.tool_calls}
        self.add_row(
            MessageRow(
                received(completion.message, used),
                **facts,
                cached_tokens=completion.usage.cached_tokens,
                served_model=completion.served_model,
                text_calls=completion.text_calls,
                player=completion.player,
                elided=tuple(sorted(self.elided)),
                tokens=tokens,
            )
        )
        calls = self.rows[-1].message.tool_calls
        facts["call"] = calls[0].name[:MAX_NAME_CHARS] if calls else None
        self._tell("replied", step=self.steps - 1, max_steps=self.max_steps, **facts)
        return self.rows[-1].message

    def add_answer(
        self, call: ToolCall, reply: ToolReply, seconds: float = 0.0, told: str = ""
    ) -> None:
        """Add a tool's answer to a call, with what is told besides."""
        text = f"{reply.text}\n\n{told}" if told else reply.text
        message = Message("tool", text, tool_call_id=call.id, name=call.name)
        self.add_row(
            MessageRow(
                message,
                seconds=seconds,
                tool_outcome=reply.outcome,
                carried_out=reply.carried_out,
            )
        )

    def note(self, call: ToolCall, reply: ToolReply, message_index: int, seconds: float) -> None:
        """Record the result of a call in the message at that index."""
        if reply.outcome is not ToolOutcome.INVALID:
            self.actions[reply.action or call.name] += 1
        for event in (reply.event, *reply.later_events):
            if event is not None:
                self.add_event(EventRow(message_index, call.id, event))
        if reply.conclusion is not None:
            self.conclusion = reply.conclusion
        facts: dict[str, Fact] = {"name": call.name[:MAX_NAME_CHARS], "seconds": seconds}
        if reply.event is not None and reply.event.line is not None:
            facts["stopped_at"] = f"{reply.event.file}:{reply.event.line}"[-MAX_NAME_CHARS:]
        if reply.carried_out is not None:
            facts["read_by_schema"] = True
        self._tell("tool_called", **facts, outcome=reply.outcome.value)

    def add_event(self, row: EventRow) -> None:
        """Record a debugger event."""
        self.events.append(row)
        event = row.event
        if event.action in STARTS and event.error_kind is None:
            self._tell("debug_started", state=event.state.value, seconds=event.seconds)

    def _tell(self, event: str, **facts: Fact) -> None:
        self.rollout_log.note(event, role=self.role.value, conversation=self.index, **facts)

    def finish(self, reason: StopReason) -> StopReason:
        """Record why the conversation ended."""
        self.stop_reason = reason
        return reason

    def count(self, outcome: ToolOutcome) -> int:
        """The number of tool calls with this outcome."""
        return sum(row.tool_outcome is outcome for row in self.rows)

    def row(self, instance: Instance, variant: str, attempt: int, rollout: str) -> Conversation:
        """The conversation's record, in the rollout with this id."""
        parent = None if self.parent_index is None else f"{rollout}-{self.parent_index}"
        by_block = self.role is Role.DEBUG_SUBAGENT
        return Conversation(
            schema_version=SCHEMA_VERSION,
            conversation_id=f"{rollout}-{self.index}",
            rollout_id=rollout,
            index=self.index,
            role=self.role,
            parent_conversation_id=parent,
            parent_call_id=self.parent_call_id,
            patch_attempt=self.patch_attempt,
            benchmark=instance.benchmark,
            instance_id=instance.id,
            repository=instance.repository,
            variant=variant,
            attempt=attempt,
            model=self.model,
            teacher=self.teacher,
            sampling=self.sampling,
            messages=tuple(self.rows),
            tools=json.dumps(list(self.tools)),
            events=tuple(self.events),
            final_answer=self.final_answer,
            answer=parse_answer(self.final_answer) if by_block else None,
            steps=self.steps,
            stop_reason=self.stop_reason,
        )


def _without_content(message: Message) -> Message:
    """What is sent in place of an older tool result."""
    return replace(message, content=LEFT_OUT.format(count=len(message.content)))


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
    form: ActionForm = field(default_factory=ActionForm)
    max_repeats: int | None = None
    """After so many replies in a row with the same calls and the same results, or with nothing but
    invalid calls, the steps count as used up."""


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
                if self.spec.max_repeats is not None and self._repeats(self.spec.max_repeats):
                    break
                continue
            said = self.spec.follow_up(reply.said) if follow_ups else None
            if said is not None:
                follow_ups -= 1
            elif steps_left:
                said = self._request_to_go_on(reply)
            if said is None:
                return self.log.finish(StopReason.FINISHED)
            self.log.add(Message("user", said))
        if self.spec.forced_answer is not None:
            self.log.add(Message("user", self.spec.forced_answer))
            for call in self._ask(tools=self.spec.concluding is not None).tool_calls:
                if call.name == self.spec.concluding:
                    self._carry_out(call, len(self.log.rows) - 1)
        return self.log.finish(StopReason.STEP_LIMIT)

    def _request_to_go_on(self, reply: Message) -> str | None:
        """What to say after a reply without calls that is no answer; None if it is one, or if the
        same was said before it.
        """
        if self.log.rows[-1].finish_reason == LENGTH:
            request = CUT_TEXT
        elif not reply.said.strip():
            request = EMPTY
        elif self.spec.form.by_tools and parse_calls(reply.said, self.log.tools, "")[1]:
            request = WRITTEN
        else:
            return None
        return None if self.log.rows[-2].message.content == request else request

    def _repeats(self, count: int) -> bool:
        """Whether the last so many replies made the same calls and got the same results, or made
        invalid calls alone."""
        rows = self.log.rows
        starts = [at for at, row in enumerate(rows) if row.message.role == "assistant"][-count:]
        rounds = set[tuple[str, ...]]()
        for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
            calls = [f"{call.name} {call.arguments}" for call in rows[start].message.tool_calls]
            results = rows[start + 1 : end]
            if results and all(row.tool_outcome is ToolOutcome.INVALID for row in results):
                rounds.add(("invalid",))
            else:
                rounds.add((*calls, *(row.message.content for row in results)))
        return len(starts) == count and len(rounds) == 1

    def _ask(self, tools: bool = True) -> Message:
        raise_if_stopped(self.stop)
        sampling = self.sampling
        if not tools:
            sampling = sampling.model_copy(update={"tool_choice": "none"})
        if self.spec.form.stop:
            sampling = sampling.model_copy(update={"stop": self.spec.form.stop})
        if self.context_tokens is not None:
            self.log.fit(self.context_tokens)
        while True:
            try:
                completion = self.model.complete(self.log.sent(), self.log.tools, sampling)
                return self.log.add_completion(completion)
            except ContextTooLong:
                if not self.log.make_room():
                    raise
            except RequestRefused:
                # In words that are not known it may say the same.
                if not self.log.may_be_too_long or not self.log.make_room():
                    raise

    def _act(self, reply: Message, steps_left: int) -> bool:
        """Execute a reply's calls; returns whether there were any, valid or malformed, or whether
        it was cut before it had any or text.
        """
        form = self.spec.form
        if not reply.tool_calls:
            ended = self.log.rows[-1].finish_reason
            if ended == MALFORMED_CALL:
                message = Message("user", MALFORMED)
                self.log.add_row(MessageRow(message, tool_outcome=ToolOutcome.INVALID))
                return True
            if ended == LENGTH and not reply.content.strip():
                self.log.add(Message("user", CUT))
                return True
        try:
            calls = form.calls(reply, self.log.steps)
        except MalformedAction as error:
            message = Message("user", str(error))
            self.log.add_row(MessageRow(message, tool_outcome=ToolOutcome.INVALID))
            return True
        if len(calls) > MAX_CALLS:
            raise ModelFailure(f"a reply has {len(calls)} calls, more than {MAX_CALLS}")
        index, answered = len(self.log.rows) - 1, list[Answered]()
        for call in calls:
            raise_if_stopped(self.stop)
            remind = steps_left if call is calls[-1] else None
            answered.append(self._carry_out(call, index, answered, remind))
            outcome = answered[-1].reply.outcome
            if self.log.conclusion is not None or (
                form.stops_at_error and outcome is not ToolOutcome.OK
            ):
                break
        if answered and self.log.conclusion is None and isinstance(form, TextForm):
            left_out = len(calls) - len(answered)
            self.log.add_row(form.all_answered(answered, left_out, steps_left))
        return bool(calls)

    def _carry_out(
        self,
        call: ToolCall,
        index: int,
        earlier: Sequence[Answered] = (),
        steps_left: int | None = None,
    ) -> Answered:
        """Execute a call. `earlier` are those before it in the same message; with `steps_left` the
        form's reminder is added to its answer unless that concludes the conversation.
        """
        started = time.monotonic()
        reply = self.spec.toolbox.call_after(earlier, call)
        answered = Answered(call, reply, time.monotonic() - started)
        self.log.note(call, reply, index, answered.seconds)
        if self.spec.form.by_tools:
            silent = reply.conclusion is not None
            told = "" if silent or steps_left is None else self.spec.form.reminder(steps_left)
            self.log.add_answer(call, reply, answered.seconds, told)
        return answered
