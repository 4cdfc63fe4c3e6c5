"""Questions that were asked, and what came of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from collect.bug_tests import TestFiles
from collect.grounding.checking import ground
from collect.questions.records import Question
from collect.questions.verdicts import Verdict
from collect.records import Conversation, Rollout


@dataclass(frozen=True)
class Said:
    """What is needed of a conversation."""

    text: str = ""
    """The final answer."""
    tool_calls: int = 0
    grounding: float | None = None

    @classmethod
    def of(cls, conversation: Conversation) -> Said:
        calls = sum(row.tool_outcome is not None for row in conversation.messages)
        score = ground(conversation, TestFiles()).score
        return cls(conversation.final_answer, calls, score)


@dataclass(frozen=True)
class Answered:
    """One question and the verdict on its answer."""

    question: Question
    verdict: Verdict
    rollout: Rollout | None = None
    """What it took; None where nobody held a conversation."""
    tool_calls: int = 0
    """Calls of tools in the conversation, of whatever outcome."""
    grounding: float | None = None
    """Share of what the answer claims that its conversation had observed, in 0..1; None where it
    claims nothing."""

    @property
    def steps(self) -> int:
        """Completions."""
        return self.rollout.sub_steps if self.rollout is not None else 0


@dataclass(frozen=True)
class Answers:
    """What the run's folder holds of what was asked."""

    answered: tuple[Answered, ...]
    missing: int
    """Questions without an answer: the run was stopped, or they failed."""
    conversations: Path | None
    """Where they lie as Parquet; None where nobody held any."""
    reasons: tuple[str, ...] = ()
    """Different failures of the infrastructure or the budget, as `type: message`."""
    stopped: bool = False
    """Whether the user, the budget or too many failures in a row ended it before the end."""
