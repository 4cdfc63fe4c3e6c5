"""What tells whether two conversations are about the same question, in the same workspace."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from collect.agents.config import Variant
from collect.errors import ConfigError
from collect.messages import Message
from collect.questions.building import DEFAULT_NAME
from collect.questions.records import read_questions
from collect.questions.rows import VARIANT, question_rollout_id
from collect.records import Conversation, Rollout
from format.config import PreferencesConfig

ASKS = "debug_subagent"
CHANGES = ("edit_file", "bash")
"""The main agent's tools by which files may change; neither does while the edit gate is closed."""


def prompt_of(conversation: Conversation) -> Sequence[Message]:
    """The messages before the first of the assistant's."""
    messages = [row.message for row in conversation.messages]
    first = next((i for i, each in enumerate(messages) if each.role == "assistant"), len(messages))
    return messages[:first]


def question_key(conversation: Conversation, instance_hash: str, question_id: str | None) -> bytes:
    """The same for attempts at the same question about the same bug, with the same tools."""
    prompt = [[message.role, message.content] for message in prompt_of(conversation)]
    bug = [conversation.benchmark, conversation.instance_id, instance_hash]
    facts = [bug, question_id, conversation.tools, prompt]
    return hashlib.sha256(json.dumps(facts).encode()).digest()[:16]


def asked_before_changes(conversations: Sequence[Conversation]) -> frozenset[str]:
    """Of a rollout's conversations those that began when no file could have been changed yet.

    One that nobody has called for is among them: a question of `stepinto bench answer`.
    """
    by_id = {each.conversation_id: each for each in conversations}
    return frozenset(
        each.conversation_id
        for each in conversations
        if each.parent_conversation_id is None
        or _unchanged(by_id.get(each.parent_conversation_id), each.parent_call_id)
    )


def _unchanged(parent: Conversation | None, call_id: str | None) -> bool:
    """Whether the parent had changed nothing when it made this call."""
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
    """The ids of the questions that rollouts have answered, by rollout; none where no file of
    questions is at hand. Raises ConfigError."""
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
