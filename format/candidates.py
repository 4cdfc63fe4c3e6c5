"""A conversation that may become a row, and how its rollout ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from sys import intern

from collect.code.patches import ChangedRange
from collect.code.test_files import TestFiles
from collect.errors import FailureKind
from collect.questions.grounding.checking import ground
from collect.questions.grounding.fixes import changed_by, fix_touched_location
from collect.questions.grounding.records import Grounding
from collect.store.records import Conversation, Role, Rollout
from format.inspection import Untranslatable, Vocabulary
from format.leaks import Leak, leaks_of
from format.rows import exact_messages
from format.translation import to_debug2fix
from format.turn_quality import TurnQuality, turn_qualities
from format.worth import DifficultyLevel, Pairs

BUGS_AT_HAND = 10_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the filters and rows need of a rollout. Those of a whole run are held at once."""

    resolved: bool
    failure_kind: FailureKind | None
    language: str
    teacher: str
    system: str
    patch_attempts: int
    instance_hash: str
    tests: TestFiles = field(default_factory=TestFiles)
    changed: tuple[ChangedRange, ...] = ()
    """The lines that the rollout's patch changed."""
    debug_helped: int | None = None
    category: str | None = None
    """The question's, or the bug's."""
    difficulty: DifficultyLevel | None = None
    code_version: str = ""
    question_id: str | None = None
    """Of the runtime question that was answered, where that is known."""
    tampered: bool = False
    """Whether its code interfered with the run of its tests."""
    patch_marks: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        rollout: Rollout,
        pairs: Pairs | None = None,
        difficulty: DifficultyLevel | None = None,
        question_id: str | None = None,
    ) -> Outcome:
        """The outcome of one rollout; `pairs` are those of its run."""
        return cls(
            rollout.resolved,
            rollout.failure_kind,
            intern(rollout.language),
            intern(rollout.teacher),
            intern(rollout.system),
            rollout.patch_attempts,
            intern(rollout.instance_hash),
            _test_files(tuple(test.name for test in rollout.tests)),
            changed_by(rollout.patch),
            pairs.debug_helped(rollout) if pairs is not None else None,
            intern(rollout.category) if rollout.category is not None else None,
            difficulty,
            intern(rollout.code_version),
            question_id,
            rollout.tampered is not None,
            rollout.patch_marks,
        )


@lru_cache(BUGS_AT_HAND)
def _test_files(tests: tuple[str, ...]) -> TestFiles:
    """The same for all rollouts on a bug."""
    return TestFiles(tests)


@dataclass(frozen=True)
class Background:
    """What else is known of a conversation."""

    gold_lines: frozenset[str] | None = None
    """Telling lines that the gold patch adds; None where it is not at hand."""
    git_history: bool = False
    """Whether an agent of its rollout has looked at later commits."""
    before_changes: frozenset[str] = frozenset()
    """The conversations of its rollout that began before any file could have been changed."""


@dataclass(frozen=True)
class Candidate:
    """One conversation and how its rollout ended."""

    conversation: Conversation
    outcome: Outcome
    vocabulary: Vocabulary
    """Of a Program Inspector's row."""
    background: Background = Background()
    replay_verified: bool | None = None
    """Whether a replay of its calls showed what it recorded; None where there was none."""

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

    @property
    def said(self) -> Conversation:
        """The conversation in the words of its row, or as it was held where there are none."""
        return self.as_row or self.conversation

    @cached_property
    def texts(self) -> list[str] | None:
        """The messages of its row as JSON texts; None where these would not be exact."""
        return exact_messages(self.as_row) if self.as_row is not None else None

    @cached_property
    def grounding(self) -> Grounding:
        """The claims of its answer, and what each rests on."""
        return ground(self.said, self.outcome.tests)

    @cached_property
    def turn_quality(self) -> tuple[TurnQuality, ...]:
        """A label for each of the assistant's messages."""
        return turn_qualities(self.said)

    @cached_property
    def leaks(self) -> tuple[Leak, ...]:
        """What it may know that an agent at work could not."""
        return leaks_of(
            self.said,
            self.outcome.teacher,
            self.grounding,
            self.background.gold_lines,
            self.background.git_history,
        )

    @property
    def fix_touched_location(self) -> bool | None:
        """Whether the rollout's patch changed the place that the answer reported."""
        return fix_touched_location(self.said, self.outcome.changed)
