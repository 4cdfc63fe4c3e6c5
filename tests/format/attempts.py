"""Attempts at one question, as rollouts of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from collect.questions.asking import VARIANT
from collect.store.records import Conversation, Rollout
from tests.format.conversations import with_inspection
from tests.records import make_conversations, make_rollout

Made = tuple[Rollout, tuple[Conversation, ...]]


def attempt(
    number: int, looks: int = 1, claim: str = "", variant: str = VARIANT, **changes: Any
) -> Made:
    """An attempt at the question about `ledger-1` with so many inspections, unlike all others.

    Its answer is scored by itself; not so where the variant is one with a main agent.
    """
    rollout = make_rollout("ledger-1", number, variant=variant, **changes)
    main, sub = make_conversations(rollout)
    for _ in range(looks):
        sub = with_inspection(sub)
    return rollout, (main, saying(sub, f"After attempt {number}: {claim}"))


def saying(conversation: Conversation, text: str) -> Conversation:
    """With words before its last message, and a claim in its answer."""
    *before, last = conversation.messages
    said = replace(last.message, content=f"{text}\n{last.message.content}")
    answer = conversation.answer
    assert answer is not None
    return replace(
        conversation,
        messages=(*before, replace(last, message=said)),
        answer=replace(answer, evidence=f"{answer.evidence} {text}"),
    )
