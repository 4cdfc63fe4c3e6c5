"""Conversations that say what one before them has said, told by a small mark of each."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from collect.records import Conversation
from format.config import FormatConfig
from format.near_duplicates import NearDuplicates, Signature, signature_of

UNIQUE, NOT_NEAR_DUPLICATE = "unique", "not_near_duplicate"
RULES = {
    UNIQUE: "No row before it has the same messages, call ids aside (`deduplicate`).",
    NOT_NEAR_DUPLICATE: "At most `max_similarity` of what was called and answered, line numbers "
    "aside, is the same as in a session before it.",
}
"""The last steps of the funnel: what is true of the conversations that each keeps."""


@dataclass(frozen=True, slots=True)
class Mark:
    """By what a conversation is known again."""

    key: bytes
    signature: Signature | None
    """None where the config wants near duplicates, or nothing was called: it is like none."""

    @classmethod
    def of(cls, conversation: Conversation, config: FormatConfig) -> Mark:
        """That of a row."""
        similar = config.max_similarity is not None
        return cls(session_key(conversation), signature_of(conversation) if similar else None)


class Duplicates:
    """Remembers what it let through."""

    def __init__(self, config: FormatConfig) -> None:
        self._config = config
        self._seen: set[bytes] = set()
        self._known = NearDuplicates()

    def dropped_by(self, mark: Mark) -> str | None:
        """Which of `RULES` drops a conversation; None where it is let through."""
        if self._config.deduplicate:
            if mark.key in self._seen:
                return UNIQUE
            self._seen.add(mark.key)
        if mark.signature is None or self._config.max_similarity is None:
            return None
        if self._known.find(mark.signature) > self._config.max_similarity:
            return NOT_NEAR_DUPLICATE
        self._known.add(mark.signature)
        return None


def session_key(conversation: Conversation) -> bytes:
    """Hash of what was said and called, without the call ids, which differ on every run."""
    said = [
        [row.message.role, row.message.content, row.message.reasoning, row.message.name]
        + [[call.name, call.arguments] for call in row.message.tool_calls]
        for row in conversation.messages
    ]
    return hashlib.sha256(json.dumps(said).encode()).digest()
