"""One pass over the conversations of an evaluation: answers, tools by step, and failures.

Of each rollout only names and numbers stay, so that the texts of a large run need not fit into
memory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from collect.agents.config import Variant
from collect.agents.debug2fix import DebugSubagent
from collect.benchmarks.base import Instance
from collect.code.patches import ChangedRange
from collect.questions.grounding import changed_by
from collect.store.records import ORACLE_TEACHER, Conversation, Role, Rollout, ToolOutcome
from eval.metrics import Arm, InstanceKey, arm_of, instance_of
from eval.qualitative.failure_modes import RECORDED, Case, modes_of_rollout
from eval.qualitative.samples import Samples
from eval.qualitative.sessions import modes_of_answer, session_of, tools_by_step

DEBUGGERS = (Role.DEBUG_SUBAGENT, Role.INSPECTOR)
NOT_ASKED = (ToolOutcome.INVALID, ToolOutcome.REFUSED)
SOUND = ""
"""Stands for the mode of an answer that has none."""

GoldPatches = Mapping[InstanceKey, Sequence[ChangedRange]]


@dataclass(frozen=True)
class Finding:
    """What was told of one rollout."""

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
    """Everything that was told."""

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
    samples: Samples | None = None,
) -> Study:
    """Look at every rollout once, and draw what a model is to judge.

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
            if samples is not None:
                _draw(rollout, held, result.findings[-1], samples)
    for rollout in waiting.values():
        _look_at(rollout, [], gold, result)
    result.findings.sort(key=lambda each: (each.arm, each.instance, each.attempt))
    return result


def questions_of(conversation: Conversation) -> Iterator[str]:
    """What a main agent asked its subagent; nothing in a conversation of another agent's."""
    if conversation.role is not Role.MAIN:
        return
    answered = {row.message.tool_call_id: row.tool_outcome for row in conversation.messages}
    for row in conversation.messages:
        for call in row.message.tool_calls:
            question = call.text("question") if call.name == DebugSubagent.name else ""
            if question.strip() and answered.get(call.id) not in NOT_ASKED:
                yield question


def case_of(rollout: Rollout, conversations: Sequence[Conversation], gold: GoldPatches) -> Case:
    """The facts of a rollout that modes are told by."""
    changed = changed_by(rollout.patch)
    tests = [test.name for test in rollout.tests]
    sessions = [session_of(each, tests, changed) for each in conversations if debugs(each)]
    return Case(rollout, tuple(sessions), changed, tuple(gold.get(instance_of(rollout), ())))


def debugs(conversation: Conversation) -> bool:
    """Whether it is one of an agent that has a debugger and decides what to do with it."""
    by_itself = conversation.variant == Variant.DEBUG_TOOLS_ONLY and conversation.events
    return conversation.role in DEBUGGERS or bool(by_itself)


def _look_at(
    rollout: Rollout, conversations: Sequence[Conversation], gold: GoldPatches, result: Study
) -> None:
    case = case_of(rollout, conversations, gold)
    arm = arm_of(rollout)
    for each in conversations:
        if debugs(each) and each.role is not Role.MAIN:
            result.tools[arm].update(tools_by_step(each))
    result.findings.append(
        Finding(
            rollout_id=rollout.rollout_id,
            arm=arm,
            instance=instance_of(rollout),
            attempt=rollout.attempt,
            resolved=rollout.resolved,
            answers=tuple(_primary(case)),
            modes=tuple(m.name for m in modes_of_rollout(case)) if not rollout.resolved else (),
        )
    )


def _draw(
    rollout: Rollout, conversations: Sequence[Conversation], finding: Finding, samples: Samples
) -> None:
    """Offer a rollout's questions, and its failure if it says anything about the models."""
    texts = [text for each in conversations for text in questions_of(each)]
    for number, text in enumerate(texts):
        samples.offer_question(rollout, number, text)
    if finding.modes and finding.modes[0] not in RECORDED:
        samples.offer_failure(rollout, conversations, finding.modes[0])


def _primary(case: Case) -> Iterator[str]:
    for session in case.sessions:
        if session.answers:
            modes = modes_of_answer(session, case.sees_debugger)
            yield modes[0].name if modes else SOUND
