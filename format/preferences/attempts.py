"""The attempts at questions that may be one side of a pair: small facts, no texts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from sys import intern

from collect.records import Role
from format.candidates import Candidate
from format.config import FormatConfig
from format.filters import exact_arguments, grounded, session_key, within_length
from format.leaks import Leak
from format.preferences.siblings import question_key

NEVER = ("role", "not_held_out", "no_failure")
"""Filters whose drops are no side of a pair at all."""
DUPLICATES = ("unique", "not_near_duplicate")
"""Filters that say nothing of how good an attempt is."""


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


class Attempts:
    """Those of a run, by question; of conversations that are equal, the first."""

    def __init__(self, config: FormatConfig, question_ids: Mapping[str, str]) -> None:
        """`question_ids` are by rollout, as far as they are known."""
        self._config, self._question_ids = config, question_ids
        self._seen: set[bytes] = set()
        self.by_question: dict[bytes, list[Attempt]] = defaultdict(list)

    def add(self, candidate: Candidate, dropped_by: str | None) -> None:
        """Note a conversation; `dropped_by` is the filter that dropped it, None where all let it
        through."""
        right = _right(candidate, dropped_by)
        if not right and not _wrong(candidate, dropped_by, self._config):
            return
        conversation = candidate.conversation
        question = self._question_ids.get(conversation.rollout_id)
        key = question_key(conversation, candidate.outcome.instance_hash, question)
        said = key + session_key(conversation)[:16]
        if said in self._seen:
            return
        self._seen.add(said)
        self.by_question[key].append(
            Attempt(
                conversation.conversation_id,
                intern(conversation.repository),
                question,
                right,
                sum(row.message.role == "assistant" for row in conversation.messages),
            )
        )


def _is_attempt(candidate: Candidate) -> bool:
    """Whether a Debug Subagent was asked while the workspace was as every attempt finds it."""
    conversation = candidate.conversation
    return (
        conversation.role is Role.DEBUG_SUBAGENT
        and conversation.conversation_id in candidate.background.before_changes
    )


def _right(candidate: Candidate, dropped_by: str | None) -> bool:
    passed = dropped_by is None or dropped_by in DUPLICATES
    return passed and candidate.outcome.resolved and _is_attempt(candidate)


def _wrong(candidate: Candidate, dropped_by: str | None, config: FormatConfig) -> bool:
    """Whether it ended in an answer that is wrong or ungrounded, and can be shown as it was."""
    conversation = candidate.conversation
    if dropped_by in NEVER or not _is_attempt(candidate) or not conversation.messages:
        return False
    if candidate.outcome.resolved and grounded(candidate, config):
        return False
    last = conversation.messages[-1].message
    return (
        last.role == "assistant"
        and not last.tool_calls
        and exact_arguments(candidate, config)
        and within_length(candidate, config)
        and not set(candidate.leaks) - {Leak.ORACLE}
    )
