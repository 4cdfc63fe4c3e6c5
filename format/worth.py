"""What a debug session was good for: did the rollout need it?"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from collect.agents.config import Variant
from collect.errors import TRIED_AGAIN
from collect.question_records import Difficulty, Question
from collect.questions.rows import VARIANT, question_rollout_id
from collect.store.record_lines import stream_lines
from collect.store.records import Rollout

WITHOUT_SUBAGENT = {
    Variant.DEBUG2FIX: Variant.BASELINE,
    Variant.DEBUG2FIX_TOOL_LIMIT: Variant.BASELINE,
    Variant.INSPECTCODER: Variant.SIMPLE_DEBUGGING,
}
"""Which variant is the same but for the agent that debugs."""
BASELINES = frozenset(variant.value for variant in WITHOUT_SUBAGENT.values())

PairKey = tuple[str, str, str, int, str, str]


@dataclass
class Pairs:
    """How the rollouts without a subagent ended, by what pairs them with those that have one."""

    resolved: dict[PairKey, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, rollouts: Iterable[Rollout]) -> Pairs:
        """Of a run's rollouts; those that failed for no doing of the model's pair with none."""
        pairs = cls()
        for rollout in rollouts:
            pairs.add(rollout)
        return pairs

    def add(self, rollout: Rollout) -> None:
        """Take in one more rollout of the run."""
        if rollout.variant in BASELINES and rollout.failure_kind not in TRIED_AGAIN:
            self.resolved[_pair(rollout, rollout.variant)] = rollout.resolved

    def debug_helped(self, rollout: Rollout) -> int | None:
        """1 where only the rollout with the subagent fixed the bug, -1 where only its pair did, 0
        where both or neither; None where there is no pair."""
        known = {variant.value: other.value for variant, other in WITHOUT_SUBAGENT.items()}
        other = known.get(rollout.variant)
        if other is None or rollout.failure_kind in TRIED_AGAIN:
            return None
        alone = self.resolved.get(_pair(rollout, other))
        return None if alone is None else int(rollout.resolved) - int(alone)


def _pair(rollout: Rollout, variant: str) -> PairKey:
    bug = (rollout.benchmark, rollout.instance_id, rollout.instance_hash)
    return (*bug, rollout.attempt, rollout.main_model, variant)


# How hard the runtime questions are that a run answered.


FILE = "questions.jsonl"
"""Where the questions of a run lie unless its config says otherwise."""
DEEP = 4
"""Frames of the program below, from which on a place is deep."""
Asked = tuple[str, int]
"""A model, and which of its attempts."""


class DifficultyLevel(StrEnum):
    """How far a debugger has to be driven for the answer."""

    EASY = "easy"
    """To the first visit of a line, before frame `DEEP` of the program."""
    MEDIUM = "medium"
    """To a later visit, or further down."""
    HARD = "hard"
    """To a later visit, further down."""


def level_of(difficulty: Difficulty) -> DifficultyLevel:
    """The level of a question's difficulty."""
    points = (difficulty.hit > 1) + (difficulty.depth >= DEEP)
    return tuple(DifficultyLevel)[points]


def asked_of(rollout: Rollout) -> Asked | None:
    """Who has answered in a rollout; None where no question was asked."""
    return (rollout.sub_model, rollout.attempt) if rollout.variant == VARIANT else None


def levels(
    files: Iterable[str], run: Path, asked: Collection[Asked]
) -> Mapping[str, DifficultyLevel]:
    """By rollout id, for the rollouts that answer a question of these files, or without any of
    the run's own file. Raises ConfigError for a file that is missing or broken."""
    own = run / FILE
    paths = [Path(each) for each in files] or ([own] if own.is_file() else [])
    how = "name the files in format.questions that the run's questions are from"
    return {
        question_rollout_id(question.id, question.instance_hash, model, attempt): level_of(
            question.difficulty
        )
        for path in (paths if asked else ())
        for question in stream_lines(path, Question, how)
        for model, attempt in asked
    }
