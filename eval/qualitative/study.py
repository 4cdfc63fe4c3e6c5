"""One pass over the conversations of an evaluation: answers, tools by step, failures, and a sample
of what a model is to judge.

Of each rollout only names and numbers stay, and the texts of the sample, so that the texts of a
large run need not fit into memory.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

from collect.agents.config import Variant
from collect.agents.debug2fix import DebugSubagent
from collect.benchmarks.base import Instance, TestStatus
from collect.code.patches import ChangedRange
from collect.quantities import first_of
from collect.questions.grounding import changed_by
from collect.rollouts.rollout import PASS_TO_PASS
from collect.store.records import ORACLE_TEACHER, Conversation, Role, Rollout
from eval.config import JudgeConfig
from eval.metrics import Arm, InstanceKey, arm_of, instance_of
from eval.qualitative.failure_modes import (
    NOT_DONE,
    RECORDED,
    modes_of_answer,
    modes_of_rollout,
    session_of,
    tools_by_step,
)

DEBUGGERS = (Role.DEBUG_SUBAGENT, Role.INSPECTOR)
SOUND = ""
"""Stands for the mode of an answer that has none."""
TASK_CHARACTERS = PATCH_CHARACTERS = 3_000
ANSWER_CHARACTERS = 1_500
REPLY_CHARACTERS = 300
SHOWN_CALLS = 25
SHOWN_TESTS = 10

GoldPatches = Mapping[InstanceKey, Sequence[ChangedRange]]


class Kind(StrEnum):
    QUESTION = "question"
    FAILURE = "failure"


@dataclass(frozen=True)
class Item:
    id: str
    kind: Kind
    instance: InstanceKey
    arm: Arm
    attempt: int
    text: str
    by_rules: str = ""
    """The label that the rules gave a failure; questions have none."""


class Sample:
    """What a model is to judge: at most `config.limit` questions and as many failures, the same
    ones for the same seed in whatever order they come."""

    def __init__(self, config: JudgeConfig) -> None:
        self._config = config
        self._kept: dict[Kind, dict[bytes, Item]] = {kind: {} for kind in Kind}

    def offer(self, item: Item) -> None:
        kept = self._kept[item.kind]
        kept[hashlib.sha256(f"{self._config.seed} {item.id}".encode()).digest()] = item
        if len(kept) > self._config.limit:
            del kept[max(kept)]

    @property
    def items(self) -> list[Item]:
        """All that was drawn: questions, then failures, each ordered by id."""
        return [
            item
            for kept in self._kept.values()
            for item in sorted(kept.values(), key=lambda each: each.id)
        ]


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
    """Look at every rollout once, and offer `sample` its questions and its failure.

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
                for item in _items(rollout, held, result.findings[-1]):
                    sample.offer(item)
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


def _items(
    rollout: Rollout, conversations: Sequence[Conversation], finding: Finding
) -> Iterator[Item]:
    """A rollout's questions, and its failure if it says anything about the models."""
    about = (finding.instance, finding.arm, rollout.attempt)
    questions = [text for each in conversations for text in questions_of(each)]
    for number, text in enumerate(questions):
        yield Item(f"{rollout.rollout_id}-{number}", Kind.QUESTION, *about, text)
    if finding.modes and finding.modes[0] not in RECORDED:
        record = record_of(rollout, conversations)
        yield Item(rollout.rollout_id, Kind.FAILURE, *about, record, finding.modes[0])


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


def record_of(rollout: Rollout, conversations: Sequence[Conversation]) -> str:
    parts: list[str] = []
    for each in conversations:
        if each.role in (Role.MAIN, Role.PATCH_CODER) and not parts:
            parts.append(f"The task:\n{cut(each.task, TASK_CHARACTERS)}")
        elif each.role in DEBUGGERS:
            lines = [f"A debug session was asked:\n{cut(each.task, ANSWER_CHARACTERS)}", "Calls:"]
            rows = [row for row in each.messages if row.tool_outcome is not None]
            for row in rows[:SHOWN_CALLS]:
                said = cut(row.message.content, REPLY_CHARACTERS).replace("\n", " ")
                lines.append(f"- {row.message.name or 'call'} ({row.tool_outcome}): {said}")
            if len(rows) > SHOWN_CALLS:
                lines.append(f"- and {len(rows) - SHOWN_CALLS} more")
            answer = cut(each.final_answer, ANSWER_CHARACTERS) or "(nothing)"
            parts.append("\n".join([*lines, f"It answered:\n{answer}"]))
    failing = [test for test in rollout.tests if test.after != TestStatus.PASSED]
    broken = sum(test.group == PASS_TO_PASS for test in failing)
    parts += [
        f"The agent's patch:\n{cut(rollout.patch, PATCH_CHARACTERS) or '(none)'}",
        f"It ended by: {rollout.stop_reason.value}, after {rollout.main_steps} steps, with "
        f"{rollout.sub_calls} debug sessions and {rollout.debug_calls} debugger calls.",
        f"Failing with the patch: {first_of([test.name for test in failing], SHOWN_TESTS)}. Of "
        f"them {broken} passed before.",
    ]
    return "\n\n".join(parts)


def cut(text: str, most: int) -> str:
    """A text without its middle, where it is too long."""
    text = text.strip()
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n[...]\n{text[-(most // 2) :]}"
