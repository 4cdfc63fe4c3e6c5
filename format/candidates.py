"""A conversation that may become a row, and the outcome of its rollout."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from sys import intern

from collect.code.patches import ChangedRange, TestFiles
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
    """The data of a rollout that filters and rows need. A whole run's outcomes are in memory at
    once."""

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
    """Category of the question, or else of the bug."""
    difficulty: DifficultyLevel | None = None
    code_version: str = ""
    question_id: str | None = None
    """Id of the answered runtime question, if known."""
    tampered: bool = False
    """Whether its code interfered with the test run."""
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
    """Cached: the same for all rollouts on a bug."""
    return TestFiles(tests)


@dataclass(frozen=True)
class Background:
    """Further facts about a conversation."""

    gold_lines: frozenset[str] | None = None
    """Distinctive lines that the gold patch adds; None if it is not available."""
    git_history: bool = False
    """Whether an agent of its rollout has looked at later commits."""
    before_changes: frozenset[str] = frozenset()
    """The conversations of its rollout that started before any file could have been changed."""


@dataclass(frozen=True)
class Candidate:
    """A conversation and its rollout's outcome."""

    conversation: Conversation
    outcome: Outcome
    vocabulary: Vocabulary
    """Vocabulary of a Program Inspector's row."""
    background: Background = Background()
    replay_verified: bool | None = None
    """Whether a replay of its calls had the recorded results; None if there was no replay."""

    @property
    def inspects(self) -> bool:
        """Whether it is a Program Inspector's."""
        return self.conversation.role is Role.INSPECTOR

    @cached_property
    def as_row(self) -> Conversation | None:
        """The conversation in its row's vocabulary; None if that can't express it."""
        if not self.inspects or self.vocabulary is Vocabulary.NATIVE:
            return self.conversation
        try:
            return to_debug2fix(self.conversation)
        except Untranslatable:
            return None

    @property
    def said(self) -> Conversation:
        """The conversation in its row's vocabulary, or as recorded if that can't express it."""
        return self.as_row or self.conversation

    @cached_property
    def texts(self) -> list[str] | None:
        """The messages of its row as JSON texts; None if these would not be exact."""
        return exact_messages(self.as_row) if self.as_row is not None else None

    @cached_property
    def grounding(self) -> Grounding:
        """The claims of its answer, and the evidence for each."""
        return ground(self.said, self.outcome.tests)

    @cached_property
    def turn_quality(self) -> tuple[TurnQuality, ...]:
        """A label for each of the assistant's messages."""
        return turn_qualities(self.said)

    @cached_property
    def leaks(self) -> tuple[Leak, ...]:
        """What it may know that a working agent could not."""
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
