"""One pass over the conversations of an evaluation: answers, tools by step, failures, and a sample
of the main agents' questions for a judge.

Of each rollout only names and numbers stay, and the sampled questions, so that the texts of a large
run need not fit into memory.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from collect.agents.config import Variant
from collect.agents.debug2fix import DebugSubagent
from collect.benchmarks.base import Instance
from collect.code.patches import ChangedRange
from collect.questions.grounding import changed_by
from collect.store.records import ORACLE_TEACHER, Conversation, Role, Rollout
from eval.config import JudgeConfig
from eval.metrics import Arm, InstanceKey, arm_of, instance_of
from eval.qualitative.failure_modes import (
    NOT_DONE,
    modes_of_answer,
    modes_of_rollout,
    session_of,
    tools_by_step,
)

DEBUGGERS = (Role.DEBUG_SUBAGENT, Role.INSPECTOR)
SOUND = ""
"""Stands for the mode of an answer that has none."""
GoldPatches = Mapping[InstanceKey, Sequence[ChangedRange]]


@dataclass(frozen=True)
class Item:
    """A main agent's question."""

    id: str
    instance: InstanceKey
    arm: Arm
    attempt: int
    text: str


class Sample:
    """The questions to judge: at most `config.limit`, the same ones for the same seed in whatever
    order they come."""

    def __init__(self, config: JudgeConfig) -> None:
        self._config = config
        self._kept: dict[bytes, Item] = {}

    def offer(self, item: Item) -> None:
        key = hashlib.sha256(f"{self._config.seed} {item.id}".encode()).digest()
        self._kept[key] = item
        if len(self._kept) > self._config.limit:
            del self._kept[max(self._kept)]

    @property
    def items(self) -> list[Item]:
        """All that was drawn, ordered by id."""
        return sorted(self._kept.values(), key=lambda each: each.id)


@dataclass(frozen=True)
class Finding:
    rollout_id: str
    arm: Arm
    instance: InstanceKey
    attempt: int
    resolved: bool
    answers: tuple[str, ...]
    """The primary mode of each answer; `SOUND` among them."""
    modes: tuple[str, ...]
    """The modes of an unresolved rollout, the primary one first."""


@dataclass
class Study:
    findings: list[Finding] = field(default_factory=list)
    tools: dict[Arm, Counter[tuple[int, str]]] = field(default_factory=lambda: defaultdict(Counter))
    """Calls of those that debug, by step and tool."""
    scripted: set[Arm] = field(default_factory=set)
    """Arms with the oracle as a model."""


def gold_patches(instances: Iterable[Instance]) -> GoldPatches:
    """What the gold patches change; nothing of a bug that has none."""
    return {(each.benchmark, each.id): changed_by(each.gold_patch) for each in instances}


def study(
    rollouts: Iterable[Rollout],
    conversations: Iterable[Conversation],
    gold: GoldPatches,
    sample: Sample | None = None,
) -> Study:
    """Look at every rollout once, and offer `sample` its questions.

    Conversations of one rollout come together; a rollout may have none, and conversations of other
    rollouts are passed over.
    """
    waiting = {rollout.rollout_id: rollout for rollout in rollouts}
    result = Study()
    result.scripted = {arm_of(row) for row in waiting.values() if row.teacher == ORACLE_TEACHER}
    for rollout_id, group in groupby(conversations, key=lambda each: each.rollout_id):
        rollout = waiting.pop(rollout_id, None)
        if rollout is not None:
            held = sorted(group, key=lambda each: each.index)
            _look_at(rollout, held, gold, result)
            if sample is not None:
                about = (instance_of(rollout), arm_of(rollout), rollout.attempt)
                questions = (text for each in held for text in questions_of(each))
                for number, text in enumerate(questions):
                    sample.offer(Item(f"{rollout_id}-{number}", *about, text))
    for rollout in waiting.values():
        _look_at(rollout, [], gold, result)
    result.findings.sort(key=lambda each: (each.arm, each.instance, each.attempt))
    return result


def _look_at(
    rollout: Rollout, conversations: Sequence[Conversation], gold: GoldPatches, result: Study
) -> None:
    arm, instance = arm_of(rollout), instance_of(rollout)
    changed = changed_by(rollout.patch)
    tests = [test.name for test in rollout.tests]
    sessions = []
    for each in conversations:
        by_itself = each.variant == Variant.DEBUG_TOOLS_ONLY and each.events
        if each.role in DEBUGGERS or by_itself:
            sessions.append(session_of(each, tests, changed))
            if each.role is not Role.MAIN:
                result.tools[arm].update(tools_by_step(each))
    answers = tuple([*modes_of_answer(each), SOUND][0] for each in sessions if each.answers)
    modes = modes_of_rollout(rollout, sessions, changed, gold.get(instance, ()))
    told = () if rollout.resolved else tuple(modes)
    result.findings.append(
        Finding(rollout.rollout_id, arm, instance, rollout.attempt, rollout.resolved, answers, told)
    )


def questions_of(conversation: Conversation) -> Iterator[str]:
    """What a main agent asked its subagent; nothing in a conversation of another agent's."""
    if conversation.role is not Role.MAIN:
        return
    answered = {row.message.tool_call_id: row.tool_outcome for row in conversation.messages}
    for row in conversation.messages:
        for call in row.message.tool_calls:
            question = call.text("question") if call.name == DebugSubagent.name else ""
            if question.strip() and answered.get(call.id) not in NOT_DONE:
                yield question
