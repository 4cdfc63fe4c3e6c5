"""How hard the runtime questions are that a run answered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from pathlib import Path

from collect.questions.records import Difficulty, Question
from collect.questions.rows import VARIANT, question_rollout_id
from collect.record_lines import stream_lines
from collect.records import Rollout

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
