"""The attempts at questions that can be a side of a pair: short facts, no texts."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import intern

from collect.agents.config import Variant
from collect.errors import ConfigError
from collect.question_records import read_questions
from collect.questions.building import DEFAULT_NAME
from collect.questions.rows import VARIANT, question_rollout_id
from collect.store.messages import Message
from collect.store.records import Conversation, Role, Rollout
from format.candidates import Candidate
from format.config import FormatConfig, PreferencesConfig
from format.duplicates import session_key
from format.filters import exact_arguments, grounded, within_length
from format.leaks import Leak

# Whether two conversations are about the same question in the same workspace.


ASKS = "debug_subagent"
CHANGES = ("edit_file", "bash")
"""The main agent's tools that may change files; neither does while the edit gate is closed."""


def prompt_of(conversation: Conversation) -> Sequence[Message]:
    """The messages before the assistant's first."""
    messages = [row.message for row in conversation.messages]
    first = next((i for i, each in enumerate(messages) if each.role == "assistant"), len(messages))
    return messages[:first]


def question_key(conversation: Conversation, instance_hash: str, question_id: str | None) -> bytes:
    """A key for attempts at the same question about the same bug, with the same tools."""
    prompt = [[message.role, message.content] for message in prompt_of(conversation)]
    bug = [conversation.benchmark, conversation.instance_id, instance_hash]
    facts = [bug, question_id, conversation.tools, prompt]
    return hashlib.sha256(json.dumps(facts).encode()).digest()[:16]


def asked_before_changes(conversations: Sequence[Conversation]) -> frozenset[str]:
    """The conversations of a rollout that started before any file could have been changed.

    Includes conversations without a caller: a question of `stepinto bench answer`.
    """
    by_id = {each.conversation_id: each for each in conversations}
    return frozenset(
        each.conversation_id
        for each in conversations
        if each.parent_conversation_id is None
        or _unchanged(by_id.get(each.parent_conversation_id), each.parent_call_id)
    )


def _unchanged(parent: Conversation | None, call_id: str | None) -> bool:
    """Whether the parent had changed nothing before it made this call."""
    if parent is None:
        return False
    gated = parent.variant == Variant.DEBUG2FIX_TOOL_LIMIT
    for row in parent.messages:
        for call in row.message.tool_calls:
            if call.id == call_id:
                return True
            gated = gated and call.name != ASKS
            if call.name in CHANGES and not gated:
                return False
    return False


def question_ids(
    config: PreferencesConfig, run: Path, rollouts: Iterable[Rollout]
) -> dict[str, str]:
    """Ids of the questions that rollouts have answered, by rollout; empty if no file of questions
    is available. Raises ConfigError."""
    path = Path(config.questions) if config.questions is not None else run / DEFAULT_NAME
    if not path.is_file():
        if config.questions is not None:
            raise ConfigError(f"format.preferences.questions: there is no file {path}")
        return {}
    by_bug: dict[str, list[str]] = defaultdict(list)
    for question in read_questions(path):
        by_bug[question.instance_hash].append(question.id)
    return {
        row.rollout_id: name
        for row in rollouts
        if row.variant == VARIANT
        for name in by_bug[row.instance_hash]
        if question_rollout_id(name, row.instance_hash, row.sub_model, row.attempt)
        == row.rollout_id
    }


NEVER = ("role", "not_held_out", "no_failure")
"""Conversations that these filters drop are in no pair."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One conversation."""

    conversation_id: str
    repository: str
    question_id: str | None
    right: bool
    """Whether it can be the better side; else it can only be the worse one."""
    turns: int
    """Number of assistant messages."""
    question: bytes
    """Equal for attempts at the same question."""
    said: bytes
    """Equal for conversations with the same text."""
    answer: bytes
    """Equal for equal answers; empty if there is none."""


def attempt_of(
    candidate: Candidate, dropped_by: str | None, config: FormatConfig
) -> Attempt | None:
    """A conversation's role in a pair; None if it fits in none.

    `dropped_by` is the filter that dropped it; being a duplicate does not matter.
    """
    right = _right(candidate, dropped_by)
    if not right and not _wrong(candidate, dropped_by, config):
        return None
    conversation, outcome = candidate.conversation, candidate.outcome
    return Attempt(
        conversation.conversation_id,
        intern(conversation.repository),
        outcome.question_id,
        right,
        sum(row.message.role == "assistant" for row in conversation.messages),
        question_key(conversation, outcome.instance_hash, outcome.question_id),
        session_key(conversation)[:16],
        _answer_key(conversation),
    )


class Attempts:
    """The attempts of a run, by question; only the first of equal conversations."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self.by_question: dict[bytes, list[Attempt]] = defaultdict(list)

    def add(self, attempt: Attempt) -> None:
        """Add an attempt."""
        said = attempt.question + attempt.said
        if said not in self._seen:
            self._seen.add(said)
            self.by_question[attempt.question].append(attempt)


def _answer_key(conversation: Conversation) -> bytes:
    answer = conversation.answer
    return hashlib.sha256(repr(answer).encode()).digest()[:16] if answer else b""


def _is_attempt(candidate: Candidate) -> bool:
    """Whether a Debug Subagent was asked while the workspace was unchanged."""
    conversation = candidate.conversation
    return (
        conversation.role is Role.DEBUG_SUBAGENT
        and conversation.conversation_id in candidate.background.before_changes
    )


def _right(candidate: Candidate, dropped_by: str | None) -> bool:
    return dropped_by is None and candidate.outcome.resolved and _is_attempt(candidate)


def _wrong(candidate: Candidate, dropped_by: str | None, config: FormatConfig) -> bool:
    """Whether it ended in a worse answer, and can be used as recorded."""
    conversation = candidate.conversation
    if dropped_by in NEVER or not _is_attempt(candidate) or not conversation.messages:
        return False
    if not _answered_badly(candidate, config):
        return False
    last = conversation.messages[-1].message
    return (
        last.role == "assistant"
        and not last.tool_calls
        and exact_arguments(candidate, config)
        and within_length(candidate, config)
        and not set(candidate.leaks) - {Leak.ORACLE}
    )


def _answered_badly(candidate: Candidate, config: FormatConfig) -> bool:
    """Whether its answer is missing, ungrounded, or was scored as wrong.

    If a main agent asked, the outcome is that of its patch, and says nothing about the answer.
    """
    conversation = candidate.conversation
    scored_wrong = conversation.variant == VARIANT and not candidate.outcome.resolved
    return scored_wrong or conversation.answer is None or not grounded(candidate, config)
