"""The pages of one rollout: each conversation, and the outcome on the first of them."""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from collect.questions.records import Question
from collect.questions.rows import VARIANT as QUESTIONS
from collect.records import Conversation, Rollout
from eval.labels import Labels
from eval.report.answers import answer_view
from eval.report.facts import RolloutFacts, outcome_of
from eval.report.patches import patch_view
from eval.report.questions import question_view
from eval.report.rendering import render
from eval.report.tools import tools_of
from eval.report.turns import Link, Turn, turns_of

PLAIN_NAME = re.compile(r"\w[\w-]{0,100}", re.ASCII)
MOST_TESTS = 200
FAIL_TO_PASS = "fail_to_pass"


@dataclass(frozen=True)
class RolloutPages:
    """What the pages of one rollout show."""

    title: str
    """The report's."""
    labels: Labels
    facts: RolloutFacts
    conversations: Sequence[Conversation]
    """In the order in which they were begun; may be none, where it failed before the first."""
    outcome: str
    """As `outcome_markup` gives it."""
    question: Question | None
    """The runtime question that it answers."""

    @property
    def links(self) -> tuple[Link, ...]:
        """Every page, the one with the outcome first."""
        found = tuple(map(self._link, self.conversations))
        return found or (Link(self._file(self.facts.rollout_id), None, 0, 0),)

    def pages(self) -> Iterator[tuple[str, str]]:
        """File name and text of each."""
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
        # What was collected may be evaluated, too, under the same ids.
        return f"{self.facts.stage}-{file_name(identity)}"


def outcome_markup(row: Rollout) -> str:
    """What became of a rollout, as markup: tests that matter, patch, costs."""
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
    """The page of a conversation's or rollout's id, which a foreign file may have chosen."""
    if PLAIN_NAME.fullmatch(identity):
        return f"{identity}.html"
    return f"{hashlib.sha256(identity.encode()).hexdigest()[:32]}.html"


def _told(turns: Sequence[Turn]) -> int:
    """How many turns come before the model's first."""
    return next((i for i, turn in enumerate(turns) if turn.step), len(turns))
