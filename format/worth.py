"""Whether a rollout needed its debug session."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from collect.agents.config import Variant
from collect.errors import TRIED_AGAIN
from collect.question_records import Difficulty, Question
from collect.questions.rows import VARIANT, question_rollout_id
from collect.store.record_lines import read_lines
from collect.store.records import Rollout

WITHOUT_SUBAGENT = {
    Variant.DEBUG2FIX: Variant.BASELINE,
    Variant.DEBUG2FIX_TOOL_LIMIT: Variant.BASELINE,
    Variant.INSPECTCODER: Variant.SIMPLE_DEBUGGING,
}
"""Each variant's counterpart without the debugging agent."""
BASELINES = frozenset(variant.value for variant in WITHOUT_SUBAGENT.values())

PairKey = tuple[str, str, str, int, str, str]


@dataclass
class Pairs:
    """Results of the rollouts without a subagent, by the key that pairs them with those that have
    one."""

    resolved: dict[PairKey, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, rollouts: Iterable[Rollout]) -> Pairs:
        """The pairs of a run's rollouts, without those that failed for other reasons than the
        model."""
        pairs = cls()
        for rollout in rollouts:
            pairs.add(rollout)
        return pairs

    def add(self, rollout: Rollout) -> None:
        """Add one of the run's rollouts."""
        if rollout.variant in BASELINES and rollout.failure_kind not in TRIED_AGAIN:
            self.resolved[_pair(rollout, rollout.variant)] = rollout.resolved

    def debug_helped(self, rollout: Rollout) -> int | None:
        """1 if only the rollout with the subagent fixed the bug, -1 if only its counterpart did, 0
        if both or neither; None if there is no counterpart."""
        known = {variant.value: other.value for variant, other in WITHOUT_SUBAGENT.items()}
        other = known.get(rollout.variant)
        if other is None or rollout.failure_kind in TRIED_AGAIN:
            return None
        alone = self.resolved.get(_pair(rollout, other))
        return None if alone is None else int(rollout.resolved) - int(alone)


def _pair(rollout: Rollout, variant: str) -> PairKey:
    bug = (rollout.benchmark, rollout.instance_id, rollout.instance_hash)
    return (*bug, rollout.attempt, rollout.main_model, variant)


# Difficulty of the runtime questions that a run answered.


FILE = "questions.jsonl"
"""The default file of a run's questions."""
DEEP = 4
"""Number of the program's frames below a place from which on it is deep."""
Asked = tuple[str, int]
"""A model, and the number of its attempt."""


class DifficultyLevel(StrEnum):
    """How far a debugger must go for the answer."""

    EASY = "easy"
    """The first visit of a line, less than `DEEP` frames deep."""
    MEDIUM = "medium"
    """A later visit, or at least `DEEP` frames deep."""
    HARD = "hard"
    """Both of these."""


def level_of(difficulty: Difficulty) -> DifficultyLevel:
    """The level of a question's difficulty."""
    points = (difficulty.hit > 1) + (difficulty.depth >= DEEP)
    return tuple(DifficultyLevel)[points]


def asked_of(rollout: Rollout) -> Asked | None:
    """Who answered in a rollout; None if no question was asked."""
    return (rollout.sub_model, rollout.attempt) if rollout.variant == VARIANT else None


def levels(
    files: Iterable[str], run: Path, asked: Collection[Asked]
) -> Mapping[str, DifficultyLevel]:
    """Difficulty by rollout id, for rollouts that answer a question of these files, or of the run's
    own file if none are given. Raises ConfigError for a missing or broken file."""
    own = run / FILE
    paths = [Path(each) for each in files] or ([own] if own.is_file() else [])
    how = "name the files in format.questions that the run's questions are from"
    return {
        question_rollout_id(question.id, question.instance_hash, model, attempt): level_of(
            question.difficulty
        )
        for path in (paths if asked else ())
        for question in read_lines(path, Question, how)
        for model, attempt in asked
    }
