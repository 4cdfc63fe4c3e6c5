"""Relay (DAgger): a student plays until its first bad step, then a teacher goes on to the end.

So the teacher is seen in states that only the student gets into. Each reply of such a conversation
says who wrote it (`player`); `stepinto format` masks the student's once the teacher took over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from collect.agents.rollout_context import RoleModel
from collect.agents.subagent_task import parse_answer
from collect.code.patches import TestFiles
from collect.errors import ConfigError
from collect.models.base import Completion, ConversationContext, Model, Sampling
from collect.models.received import portable
from collect.questions.grounding import ground
from collect.questions.observations import sets_unnamed_breakpoint
from collect.store.messages import Message, ToolSchema
from collect.store.records import Conversation, MessageRow, Role, ToolOutcome


def bad_step(conversation: Conversation) -> str | None:
    """What was wrong with the last step, by what came of it; None if nothing was."""
    rows = conversation.messages
    after = list(takewhile(lambda row: row.message.role != "assistant", reversed(rows)))
    if len(after) == len(rows):
        return None
    outcomes = {row.tool_outcome for row in after}
    for wrong in (ToolOutcome.INVALID, ToolOutcome.REFUSED):
        if wrong in outcomes:
            return f"{wrong} call"
    return "neither call nor answer" if outcomes == {None} else None


def ungrounded(conversation: Conversation, said: Message) -> str | None:
    """What a next reply refers to without having seen it; None if it doesn't."""
    answer = None if said.tool_calls else parse_answer(said.said)
    rows = (*conversation.messages, MessageRow(said.storable()))
    later = replace(conversation, messages=rows, answer=answer, final_answer=said.said)
    if sets_unnamed_breakpoint(later):
        return "breakpoint in a file that nothing named"
    score = ground(later, TestFiles()).score
    return "ungrounded answer" if score is not None and score < 1 else None


@dataclass(frozen=True)
class RelayBackend:
    """Opens conversations that a student begins."""

    name: str
    student: RoleModel
    teacher: RoleModel

    def open(self, context: ConversationContext) -> Model:
        """Raises ConfigError for any other agent than the Debug Subagent."""
        if context.role != Role.DEBUG_SUBAGENT:
            raise ConfigError(
                f"models.{self.name}: a relay can play the Debug Subagent alone, and was to be "
                f"{context.role}; take another model there"
            )
        return _RelayModel(self, context)

    def close(self) -> None:
        """The backends of both are closed by their owner."""


class _RelayModel:
    def __init__(self, relay: RelayBackend, context: ConversationContext) -> None:
        self._relay, self._context = relay, context
        self._student = relay.student.backend.open(context)
        self._teacher: Model | None = None
        self._by_student = 0
        """How many messages there were before the teacher's first."""
        self._dropped: Completion | None = None
        """A reply whose cost the teacher's has to tell, which may take several requests."""

    def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSchema], sampling: Sampling
    ) -> Completion:
        """The student's reply, or the teacher's from the student's first bad step on.

        A bad call was answered, and the teacher sees that. An ungrounded reply, or a wrong answer
        to a question whose answer was measured, would end the conversation or lead it astray: the
        teacher's takes its place, and its cost is kept.
        """
        if self._teacher is None:
            # Once its steps are used up, nobody could see anything more.
            forced = sampling.tool_choice == "none"
            assert self._context.so_far is not None, "an agent opens it"
            so_far = self._context.so_far()
            wrong = None if forced else bad_step(so_far)
            if wrong is None:
                said = self._student.complete(messages, tools, sampling)
                wrong = None if forced else self._wrong(so_far, said.message)
                if wrong is None:
                    return replace(said, player=self._relay.student.backend.name)
                self._dropped = said
            self._context.log.note("relayed", conversation=self._context.index, why=wrong)
            self._teacher = self._relay.teacher.backend.open(self._context)
            self._by_student = len(messages)
        own = self._relay.teacher.sampling
        seed = None if own.seed is None else own.seed + self._context.attempt
        asked = {"tool_choice": sampling.tool_choice, "stop": sampling.stop or own.stop}
        # Its server may not take what the student's gave.
        given = [*map(portable, messages[: self._by_student]), *messages[self._by_student :]]
        said = self._teacher.complete(given, tools, own.model_copy(update={**asked, "seed": seed}))
        dropped, self._dropped = self._dropped, None
        if dropped is not None:
            usage, spent = said.usage + dropped.usage, said.dollars + dropped.dollars
            seconds = said.seconds + dropped.seconds
            told = dropped.usage.prompt_tokens
            said = replace(said, usage=usage, dollars=spent, seconds=seconds, replaced_tokens=told)
        return replace(said, player=self._relay.teacher.backend.name)

    def _wrong(self, so_far: Conversation, said: Message) -> str | None:
        is_right, text = self._context.is_right, said.said
        if is_right and not said.tool_calls and parse_answer(text) and not is_right(text):
            return "wrong answer"
        return ungrounded(so_far, said)
