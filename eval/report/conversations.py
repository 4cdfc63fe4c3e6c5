"""The pages of one rollout: one per conversation, with the outcome on the first."""

from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from collect.code.test_files import TestFiles
from collect.question_records import Question
from collect.questions.grounding.checking import MAX_CHARACTERS, answer_texts, ground
from collect.questions.grounding.records import GroundedClaim, Grounding
from collect.questions.rows import VARIANT as QUESTIONS
from collect.store.records import Conversation, Rollout
from eval.labels import Labels
from eval.report.facts import RolloutFacts, outcome_of
from eval.report.questions import question_view
from eval.report.rendering import render
from eval.report.turns import Link, Turn, turns_of

# A conversation's answer, with each claim marked by its evidence.


LABELS, CAUSE = ("Answer", "Evidence", "Location"), "Cause"


@dataclass(frozen=True)
class Piece:
    """A part of a text."""

    text: str
    support: str = ""
    """The evidence of the claim; empty for text between claims."""


@dataclass(frozen=True)
class AnswerView:
    """An answer's fields, and the claims in them."""

    fields: tuple[tuple[str, tuple[Piece, ...]], ...]
    """Label and text."""
    grounding: Grounding


def answer_view(conversation: Conversation) -> AnswerView | None:
    """None if the conversation has no answer whose claims are checked."""
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
    """The text split at claims that it contains verbatim; longer claims come first."""
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
    """Strings to search for: the claim itself, and for `name = value` also the value alone."""
    yield claim.text
    _, is_named, value = claim.text.partition(" = ")
    if is_named and value:
        yield value


# A patch's lines by kind.


MOST_LINES = 3_000
"""Limit for a patch in a page; the Parquet files have it whole."""
HEADS = ("diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "# ")
KINDS = {"+": "added", "-": "removed", "@": "hunk"}


@dataclass(frozen=True)
class PatchLine:
    """One line of a unified diff."""

    text: str
    kind: str
    """added, removed, hunk, head or same; the line's CSS class."""


@dataclass(frozen=True)
class PatchView:
    """A patch as a page shows it."""

    lines: tuple[PatchLine, ...]
    left_out: int
    """Number of lines not shown."""
    added: int
    removed: int


def patch_view(patch: str) -> PatchView:
    """The lines of a unified diff."""
    lines = patch.rstrip("\n").split("\n") if patch.strip() else []
    told = [PatchLine(line, _kind(line)) for line in lines]
    kinds = [line.kind for line in told]
    shown = tuple(told[:MOST_LINES])
    return PatchView(shown, len(told) - len(shown), kinds.count("added"), kinds.count("removed"))


def _kind(line: str) -> str:
    if line.startswith(HEADS):
        return "head"
    return KINDS.get(line[:1], "same")


# The tools that a conversation's model had.


@dataclass(frozen=True)
class ToolView:
    """A tool's description, as sent to the model."""

    name: str
    description: str
    parameters: tuple[str, ...]


def tools_of(sent: str) -> list[ToolView]:
    """The tools in OpenAI's format; empty for anything else."""
    try:
        return [_view(tool["function"]) for tool in json.loads(sent)]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


def _view(function: dict[str, object]) -> ToolView:
    parameters = function.get("parameters")
    known = parameters.get("properties") if isinstance(parameters, dict) else None
    names = tuple(map(str, known)) if isinstance(known, dict) else ()
    return ToolView(str(function["name"]), str(function.get("description", "")), names)


PLAIN_NAME = re.compile(r"\w[\w-]{0,100}", re.ASCII)
MOST_TESTS = 200
FAIL_TO_PASS = "fail_to_pass"


@dataclass(frozen=True)
class RolloutPages:
    """Contents of the pages of one rollout."""

    title: str
    """The report's title."""
    labels: Labels
    facts: RolloutFacts
    conversations: Sequence[Conversation]
    """In start order; empty if the rollout failed before the first."""
    outcome: str
    """HTML from `outcome_markup`."""
    question: Question | None
    """The runtime question that the rollout answers."""

    @property
    def links(self) -> tuple[Link, ...]:
        """Links to all pages, the one with the outcome first."""
        found = tuple(map(self._link, self.conversations))
        return found or (Link(self._file(self.facts.rollout_id), None, 0, 0),)

    def pages(self) -> Iterator[tuple[str, str]]:
        """File name and text of each page."""
        links = self.links
        if not self.conversations:
            yield links[0].page, render("conversation.html.j2", **self._common(0))
        for number, (conversation, link) in enumerate(zip(self.conversations, links, strict=False)):
            values = self._common(number) | self._values(conversation)
            yield link.page, render("conversation.html.j2", **values)

    def _common(self, number: int) -> dict[str, Any]:
        arm = self.facts.arm
        return {
            "title": self.title,
            "facts": self.facts,
            "variant": self.labels.variant(arm.variant),
            "models": self.labels.models(arm, self.facts.scripted),
            "conversations": self.links,
            "outcome": Markup(self.outcome) if number == 0 else None,
            "conversation": None,
            "question": None,
            "answer": None,
        }

    def _values(self, conversation: Conversation) -> dict[str, Any]:
        turns = turns_of(conversation, self._begun_by(conversation))
        told = _told(turns)
        asked = self.question
        rows = conversation.messages
        return {
            "conversation": conversation,
            "parent": self._parent(conversation),
            "question": question_view(asked, conversation.final_answer) if asked else None,
            "answer": answer_view(conversation),
            "task": turns[:told],
            "turns": turns[told:],
            "tools": tools_of(conversation.tools),
            "prompt_tokens": sum(row.prompt_tokens for row in rows),
            "completion_tokens": sum(row.completion_tokens for row in rows),
            "seconds": sum(row.seconds for row in rows),
            "dollars": sum(row.dollars for row in rows),
        }

    def _begun_by(self, conversation: Conversation) -> Mapping[str, Sequence[Link]]:
        children: dict[str, list[Link]] = defaultdict(list)
        for other in self.conversations:
            if other.parent_conversation_id == conversation.conversation_id:
                children[other.parent_call_id or ""].append(self._link(other))
        return children

    def _parent(self, conversation: Conversation) -> Link | None:
        wanted = conversation.parent_conversation_id
        found = [each for each in self.conversations if each.conversation_id == wanted]
        return self._link(found[0]) if wanted is not None and found else None

    def _link(self, conversation: Conversation) -> Link:
        page = self._file(conversation.conversation_id)
        return Link(page, conversation.role, conversation.index, conversation.steps)

    def _file(self, identity: str) -> str:
        # A collected rollout and an evaluated one can have the same ids.
        return f"{self.facts.stage}-{file_name(identity)}"


def outcome_markup(row: Rollout) -> str:
    """A rollout's outcome as HTML: tests that matter, patch, costs."""
    telling = [
        test for test in row.tests if test.group == FAIL_TO_PASS or test.before != test.after
    ]
    shown = telling[:MOST_TESTS]
    return render(
        "outcome.html.j2",
        row=row,
        outcome=outcome_of(row),
        shown_tests=shown,
        other_tests=len(row.tests) - len(shown),
        patch=patch_view(row.patch),
        is_question=row.variant == QUESTIONS,
    )


def file_name(identity: str) -> str:
    """The file name for a conversation's or rollout's id, which may come from a foreign file."""
    if PLAIN_NAME.fullmatch(identity):
        return f"{identity}.html"
    return f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.html"


def _told(turns: Sequence[Turn]) -> int:
    """Number of turns before the model's first."""
    return next((i for i, turn in enumerate(turns) if turn.step), len(turns))
