"""The attempts at questions that may be one side of a pair: small facts, no texts."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from sys import intern

from collect.questions.rows import VARIANT
from collect.records import Conversation, Role
from format.candidates import Candidate
from format.config import FormatConfig
from format.duplicates import session_key
from format.filters import exact_arguments, grounded, within_length
from format.leaks import Leak
from format.preferences.siblings import question_key

NEVER = ("role", "not_held_out", "no_failure")
"""Filters whose drops are no side of a pair at all."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One conversation."""

    conversation_id: str
    repository: str
    question_id: str | None
    right: bool
    """Fit to be the better one; else it is fit to be the worse one alone."""
    turns: int
    """Messages of the assistant."""
    question: bytes
    """The same for attempts at the same question."""
    said: bytes
    """The same for conversations that say the same."""
    answer: bytes
    """The same for equal answers; empty where there is none."""


def attempt_of(
    candidate: Candidate, dropped_by: str | None, config: FormatConfig
) -> Attempt | None:
    """What a conversation may be in a pair; None where it is fit for none.

    `dropped_by` is the filter that dropped it; that it is like another counts for nothing.
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
    """Those of a run, by question; of conversations that are equal, the first."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self.by_question: dict[bytes, list[Attempt]] = defaultdict(list)

    def add(self, attempt: Attempt) -> None:
        """Note one."""
        said = attempt.question + attempt.said
        if said not in self._seen:
            self._seen.add(said)
            self.by_question[attempt.question].append(attempt)


def _answer_key(conversation: Conversation) -> bytes:
    answer = conversation.answer
    return hashlib.sha256(repr(answer).encode()).digest()[:16] if answer else b""


def _is_attempt(candidate: Candidate) -> bool:
    """Whether a Debug Subagent was asked while the workspace was as every attempt finds it."""
    conversation = candidate.conversation
    return (
        conversation.role is Role.DEBUG_SUBAGENT
        and conversation.conversation_id in candidate.background.before_changes
    )


def _right(candidate: Candidate, dropped_by: str | None) -> bool:
    return dropped_by is None and candidate.outcome.resolved and _is_attempt(candidate)


def _wrong(candidate: Candidate, dropped_by: str | None, config: FormatConfig) -> bool:
    """Whether it ended in a worse answer, and can be shown as it was."""
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

    Where a main agent asked, the outcome is that of its patch, and says nothing of the answer.
    """
    conversation = candidate.conversation
    scored_wrong = conversation.variant == VARIANT and not candidate.outcome.resolved
    return scored_wrong or conversation.answer is None or not grounded(candidate, config)
