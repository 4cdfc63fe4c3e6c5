"""The rows of an answered question: a rollout without a main agent, and its one conversation."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from collect.agents.config import AgentsConfig, Variant
from collect.agents.debug2fix import subagent_prompt
from collect.agents.prompts import wording
from collect.agents.subagent_task import DebugSubagentArguments, subagent_task
from collect.benchmarks.base import Instance
from collect.question_records import Question
from collect.questions.scoring import Verdict
from collect.rollouts.rollout import RolloutSpec
from collect.store.messages import Message
from collect.store.records import Conversation, Rollout

VARIANT = "questions"


@dataclass(frozen=True)
class QuestionSpec(RolloutSpec):
    """A rollout that asks one question."""

    question_id: str = ""

    @property
    def id(self) -> str:
        return question_rollout_id(self.question_id, self.instance.hash, self.main, self.attempt)


def question_spec(question: Question, bug: Instance, model: str, attempt: int) -> QuestionSpec:
    """The rollout in which a model, by its config name, answers a question."""
    return QuestionSpec(bug, Variant.DEBUG2FIX, model, model, attempt, question.id)


def question_rollout_id(question_id: str, instance_hash: str, model: str, attempt: int) -> str:
    """The id of the rollout in which a model, by its config name, answers a question."""
    key = "\0".join((VARIANT, question_id, instance_hash, model, str(attempt)))
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def rollouts_of(
    questions: Iterable[Question], answering: Collection[tuple[str, int]]
) -> Iterator[tuple[str, Question]]:
    """Rollout ids for questions answered by models, each at an attempt."""
    for question in questions:
        for model, attempt in answering:
            yield question_rollout_id(question.id, question.instance_hash, model, attempt), question


def as_question(
    question: Question, right: bool, rollout: Rollout, conversations: list[Conversation]
) -> tuple[Rollout, list[Conversation]]:
    """The rows of a rollout without a main agent."""
    category = question.category.value
    row = replace(rollout, variant=VARIANT, category=category, main_model="", resolved=right)
    return row, [replace(conversation, variant=VARIANT) for conversation in conversations]


@dataclass(frozen=True)
class Answered:
    """A question and the verdict on its answer."""

    question: Question
    verdict: Verdict
    rollout: Rollout | None = None
    """The rollout's row, or None if there was no conversation."""
    tool_calls: int = 0
    """Number of tool calls in the conversation, whatever their outcome."""
    grounding: float | None = None
    """Share of the answer's claims that the conversation observed, in 0..1; None if it has no
    claims.
    """

    @property
    def steps(self) -> int:
        """Completions."""
        return self.rollout.sub_steps if self.rollout is not None else 0


@dataclass(frozen=True)
class Answers:
    """All answers in a run's folder."""

    answered: tuple[Answered, ...]
    missing: int
    """Questions without an answer because the run was stopped or they failed."""
    conversations: Path | None
    """The conversations' Parquet files, or None if there are none."""
    reasons: tuple[str, ...] = ()
    """Distinct infrastructure or budget failures, as `type: message`."""
    stopped: bool = False
    """Whether the user, the budget or too many failures in a row stopped it early."""


def arguments_for(question: Question) -> DebugSubagentArguments:
    """The arguments of the main agent's call for this question."""
    hints = question.hints
    return DebugSubagentArguments(
        question=question.question,
        test=question.test,
        path=hints.path,
        lines=hints.lines or None,
        variables=hints.variables or None,
    )


def opening_messages(question: Question, agents: AgentsConfig) -> tuple[Message, Message]:
    """The system message and the user message, as in a rollout with these settings."""
    values = wording(question.language)
    return (
        Message("system", subagent_prompt(values, agents)),
        Message("user", subagent_task(arguments_for(question))),
    )
