"""What a model is to judge: a sample of the questions and of the failures, drawn in one pass."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from collect.benchmarks.base import TestStatus
from collect.quantities import first_of
from collect.rollouts.scoring import PASS_TO_PASS
from collect.store.records import Conversation, Role, Rollout
from eval.metrics import Arm, InstanceKey, arm_of, instance_of
from eval.qualitative.config import JudgeConfig

TASK_CHARACTERS = 3_000
PATCH_CHARACTERS = 3_000
ANSWER_CHARACTERS = 1_500
REPLY_CHARACTERS = 300
SHOWN_CALLS = 25
SHOWN_TESTS = 10


class Kind(StrEnum):
    """What is judged."""

    QUESTION = "question"
    FAILURE = "failure"


@dataclass(frozen=True)
class Item:
    """One thing to judge."""

    id: str
    kind: Kind
    instance: InstanceKey
    arm: Arm
    attempt: int
    text: str
    by_rules: str = ""
    """The label that the rules gave a failure; questions have none."""


@dataclass
class Sample:
    """At most `limit` items of one kind, the same ones for the same seed in whatever order."""

    limit: int
    seed: int
    _heap: list[tuple[int, str, Item]] = field(default_factory=list)

    def offer(self, key: str, make: Callable[[], Item]) -> None:
        """Take an item in, if it is among those to keep; only then it is made."""
        digest = hashlib.sha256(f"{self.seed} {key}".encode()).digest()
        rank = -int.from_bytes(digest[:8], "big")
        if len(self._heap) < self.limit:
            heapq.heappush(self._heap, (rank, key, make()))
        elif rank > self._heap[0][0]:
            heapq.heapreplace(self._heap, (rank, key, make()))

    @property
    def items(self) -> list[Item]:
        """The drawn items, ordered by key."""
        return [item for _, _, item in sorted(self._heap, key=lambda entry: entry[1])]


@dataclass
class Samples:
    """What is drawn while an evaluation is looked through."""

    questions: Sample
    failures: Sample

    @classmethod
    def of(cls, config: JudgeConfig) -> Samples:
        """As many of each as the config says."""
        return cls(Sample(config.limit, config.seed), Sample(config.limit, config.seed))

    @property
    def items(self) -> list[Item]:
        """All that was drawn."""
        return [*self.questions.items, *self.failures.items]

    def offer_question(self, rollout: Rollout, number: int, text: str) -> None:
        """The main agent's question of this number, from 0."""
        key = f"{rollout.rollout_id}-{number}"
        self.questions.offer(key, lambda: _item(key, Kind.QUESTION, rollout, text))

    def offer_failure(
        self, rollout: Rollout, conversations: Sequence[Conversation], by_rules: str
    ) -> None:
        """An unresolved rollout with a verdict."""
        key = rollout.rollout_id
        self.failures.offer(
            key,
            lambda: _item(key, Kind.FAILURE, rollout, record_of(rollout, conversations), by_rules),
        )


def record_of(rollout: Rollout, conversations: Sequence[Conversation]) -> str:
    """What happened in a rollout, short enough for a prompt."""
    parts: list[str] = []
    for each in conversations:
        if each.role in (Role.MAIN, Role.PATCH_CODER) and not parts:
            parts.append(f"The task:\n{cut(_task(each), TASK_CHARACTERS)}")
        elif each.role in (Role.DEBUG_SUBAGENT, Role.INSPECTOR):
            parts.append(_session(each))
    failing = [test.name for test in rollout.tests if test.after != TestStatus.PASSED]
    broken = [t.group for t in rollout.tests if t.name in failing]
    parts += [
        f"The agent's patch:\n{cut(rollout.patch, PATCH_CHARACTERS) or '(none)'}",
        f"It ended by: {rollout.stop_reason.value}, after {rollout.main_steps} steps, with "
        f"{rollout.sub_calls} debug sessions and {rollout.debug_calls} debugger calls.",
        f"Failing with the patch: {first_of(failing, SHOWN_TESTS)}. Of them "
        f"{broken.count(PASS_TO_PASS)} passed before.",
    ]
    return "\n\n".join(parts)


def cut(text: str, most: int) -> str:
    """A text without its middle, where it is too long."""
    text = text.strip()
    if len(text) <= most:
        return text
    return f"{text[: most // 2]}\n[...]\n{text[-(most // 2) :]}"


def _session(conversation: Conversation) -> str:
    """A debug session: what was asked, each call and how its answer begins, the final answer."""
    lines = [f"A debug session was asked:\n{cut(_task(conversation), ANSWER_CHARACTERS)}", "Calls:"]
    rows = [row for row in conversation.messages if row.tool_outcome is not None]
    for row in rows[:SHOWN_CALLS]:
        said = cut(row.message.content, REPLY_CHARACTERS).replace("\n", " ")
        lines.append(f"- {row.message.name or 'call'} ({row.tool_outcome}): {said}")
    if len(rows) > SHOWN_CALLS:
        lines.append(f"- and {len(rows) - SHOWN_CALLS} more")
    answer = cut(conversation.final_answer, ANSWER_CHARACTERS) or "(nothing)"
    return "\n".join([*lines, f"It answered:\n{answer}"])


def _task(conversation: Conversation) -> str:
    rows = (row.message for row in conversation.messages if row.message.role == "user")
    first = next(rows, None)
    return first.content if first is not None else ""


def _item(key: str, kind: Kind, rollout: Rollout, text: str, by_rules: str = "") -> Item:
    arm, instance = arm_of(rollout), instance_of(rollout)
    return Item(key, kind, instance, arm, rollout.attempt, text, by_rules)
