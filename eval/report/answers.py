"""A conversation's answer, with what it states marked by what that rests on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collect.bug_tests import TestFiles
from collect.grounding.checking import MAX_CHARACTERS, answer_texts, ground
from collect.grounding.records import GroundedClaim, Grounding
from collect.records import Conversation

LABELS, CAUSE = ("Answer", "Evidence", "Location"), "Cause"


@dataclass(frozen=True)
class Piece:
    """A part of a text."""

    text: str
    support: str = ""
    """What the claim that it is rests on; empty for the text between claims."""


@dataclass(frozen=True)
class AnswerView:
    """An answer's fields, and the claims in them."""

    fields: tuple[tuple[str, tuple[Piece, ...]], ...]
    """Label and text."""
    grounding: Grounding


def answer_view(conversation: Conversation) -> AnswerView | None:
    """None where the conversation has no answer whose claims are checked."""
    told = answer_texts(conversation)
    labels = LABELS if conversation.answer is not None and len(told) > 1 else (CAUSE,)
    texts = [(label, text) for label, text in zip(labels, told, strict=False) if text]
    if not texts:
        return None
    grounding = ground(conversation, TestFiles())
    return AnswerView(
        tuple((label, tuple(marked(text, grounding.claims))) for label, text in texts), grounding
    )


def marked(text: str, claims: Sequence[GroundedClaim]) -> list[Piece]:
    """The text cut at the claims that stand in it word by word; longer ones come first."""
    supports = {
        needle: claim.grounded.value
        for claim in sorted(claims, key=lambda each: len(each.text))
        for needle in _needles(claim)
    }
    if not supports:
        return [Piece(text)]
    longest_first = sorted(supports, key=len, reverse=True)
    either = "|".join(map(re.escape, longest_first))
    pieces: list[Piece] = []
    done = 0
    for found in re.finditer(rf"(?<!\w)(?:{either})(?!\w)", text[:MAX_CHARACTERS]):
        pieces += [Piece(text[done : found.start()]), Piece(found[0], supports[found[0]])]
        done = found.end()
    return [piece for piece in (*pieces, Piece(text[done:])) if piece.text]


def _needles(claim: GroundedClaim) -> Iterable[str]:
    """What to look for: the claim as it is told, and of `name = value` also the value alone."""
    yield claim.text
    _, is_named, value = claim.text.partition(" = ")
    if is_named and value:
        yield value
