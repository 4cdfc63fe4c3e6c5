"""A conversation that may become a row, and how its rollout ended."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from collect.errors import FailureKind
from collect.records import Conversation, Role, Rollout
from format.translation import to_debug2fix
from format.vocabulary import Untranslatable, Vocabulary


@dataclass(frozen=True)
class Outcome:
    """What the filters and rows need of a rollout."""

    resolved: bool
    failure_kind: FailureKind | None
    language: str
    teacher: str
    system: str
    patch_attempts: int
    instance_hash: str

    @classmethod
    def of(cls, rollout: Rollout) -> Outcome:
        """The outcome of one rollout."""
        return cls(
            rollout.resolved,
            rollout.failure_kind,
            rollout.language,
            rollout.teacher,
            rollout.system,
            rollout.patch_attempts,
            rollout.instance_hash,
        )


@dataclass(frozen=True)
class Candidate:
    """One conversation and how its rollout ended."""

    conversation: Conversation
    outcome: Outcome
    vocabulary: Vocabulary
    """Of a Program Inspector's row."""

    @property
    def inspects(self) -> bool:
        """Whether a Program Inspector held it."""
        return self.conversation.role is Role.INSPECTOR

    @cached_property
    def as_row(self) -> Conversation | None:
        """The conversation in the words of its row; None where there are no such words."""
        if not self.inspects or self.vocabulary is Vocabulary.NATIVE:
            return self.conversation
        try:
            return to_debug2fix(self.conversation)
        except Untranslatable:
            return None
