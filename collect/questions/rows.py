"""The rows of an answered question: a rollout without a main agent, and its one conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from collect.agents.config import Variant
from collect.benchmarks.base import Instance
from collect.questions.records import Question
from collect.records import Conversation, Rollout
from collect.rollout import RolloutSpec

VARIANT = "questions"


@dataclass(frozen=True)
class QuestionSpec(RolloutSpec):
    """A rollout that asks one question."""

    question_id: str = ""

    @property
    def id(self) -> str:
        return question_rollout_id(self.question_id, self.instance.hash, self.main, self.attempt)


def question_spec(question: Question, bug: Instance, model: str, attempt: int) -> QuestionSpec:
    """The rollout in which a model, by its name in the config, answers a question."""
    return QuestionSpec(bug, Variant.DEBUG2FIX, model, model, attempt, question.id)


def question_rollout_id(question_id: str, instance_hash: str, model: str, attempt: int) -> str:
    """The id of the rollout in which a model, by its name in the config, answers a question."""
    key = "\0".join((VARIANT, question_id, instance_hash, model, str(attempt)))
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def rollouts_of(
    questions: Iterable[Question], answering: Collection[tuple[str, int]]
) -> Iterator[tuple[str, Question]]:
    """The ids of the rollouts in which models, each at an attempt, answer questions."""
    for question in questions:
        for model, attempt in answering:
            yield question_rollout_id(question.id, question.instance_hash, model, attempt), question


def as_question(
    question: Question, right: bool, rollout: Rollout, conversations: list[Conversation]
) -> tuple[Rollout, list[Conversation]]:
    """The rows of a rollout without a main agent."""
    row = replace(
        rollout,
        variant=VARIANT,
        category=question.category.value,
        main_model="",
        resolved=right,
    )
    return row, [replace(conversation, variant=VARIANT) for conversation in conversations]
