"""Each claim of an answer against what its conversation was given, and what it observed."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from collect.agents.repair.inspector import plan_of
from collect.agents.subagent_task import read_subagent_task
from collect.bug_tests import TestFiles
from collect.grounding.claims import claims_in
from collect.grounding.matching import has_word, in_texts, sightings_of_value
from collect.grounding.observations import Observations, Sighting, observed, plain
from collect.grounding.records import Claim, ClaimKind, GroundedClaim, Grounding, Support
from collect.questions.claims import places, same_file
from collect.questions.comparing import same
from collect.questions.value_claims import named_values, values_in
from collect.records import Conversation, Role

MAX_CHARACTERS = 6_000
"""Of a field, that are read: one that is longer repeats itself, and takes long to read."""
REPAIR = re.compile(r"\bto fix (?:the|this) (?:bug|problem|issue)\b", re.IGNORECASE)
"""Where a plan goes on to what should be changed, which nobody can have observed."""


@dataclass(frozen=True)
class Task:
    """What the agent was told, and what stands in it."""

    text: str

    @cached_property
    def plain(self) -> str:
        """The text as it is compared."""
        return plain(self.text)

    @cached_property
    def places(self) -> Sequence[tuple[str, int]]:
        """Files and lines, those that the main agent hints at among them."""
        asked = read_subagent_task(self.text)
        path, lines = (asked.path, asked.lines) if asked else (None, None)
        hints = [(path, line) for line in lines or ()] if path else []
        return [*((file, line) for file, line, _ in places(self.text)), *hints]

    @cached_property
    def values(self) -> Sequence[object]:
        """All values, whatever they are of."""
        return [each.value for each in values_in(self.text)]


def ground(conversation: Conversation, tests: TestFiles) -> Grounding:
    """The claims of a conversation's answer or plan, and what each rests on."""
    texts = answer_texts(conversation)
    claims = {(c.kind, str(c)): c for text in texts for c in claims_in(text[:MAX_CHARACTERS])}
    if not claims:
        return Grounding()
    roles = [row.message.role for row in conversation.messages]
    end = len(roles) - 1 - roles[::-1].index("assistant")
    task = Task(task_text(conversation))
    seen = observed(conversation, end, tests)
    return Grounding(tuple(_check(claim, task, seen) for claim in claims.values()))


def answer_texts(conversation: Conversation) -> Sequence[str]:
    """What is to be grounded: an answer's fields, or of a plan what it says of the cause."""
    answer = conversation.answer
    if conversation.role is Role.INSPECTOR:
        plan = answer.answer if answer is not None else plan_of(conversation.final_answer)
        return (REPAIR.split(plan, maxsplit=1)[0],)
    return (answer.answer, answer.evidence, answer.location) if answer is not None else ()


def task_text(conversation: Conversation) -> str:
    """What the agent was told before it did anything, its standing instructions aside."""
    told: list[str] = []
    for row in conversation.messages:
        if row.message.role == "assistant":
            break
        if row.message.role == "user":
            told.append(row.message.content)
    return "\n".join(told)


def _check(claim: Claim, task: Task, seen: Observations) -> GroundedClaim:
    if _is_given(claim, task):
        return GroundedClaim(claim.kind, str(claim), Support.GIVEN)
    sightings = sorted(_sightings(claim, seen), key=lambda each: each.where)
    if not sightings:
        return GroundedClaim(claim.kind, str(claim), Support.UNGROUNDED)
    tested = all(each.in_test for each in sightings)
    return GroundedClaim(
        claim.kind, str(claim), Support.OBSERVED, sightings[0].where, from_test=tested
    )


def _is_given(claim: Claim, task: Task) -> bool:
    if claim.kind is ClaimKind.LOCATION and claim.line:
        return any(line == claim.line and same_file(file, claim.file) for file, line in task.places)
    if claim.kind is not ClaimKind.VALUE:
        return has_word(task.plain, plain(claim.text))
    if not claim.name:
        return any(same(each, claim.value) for each in task.values)
    told = named_values(task.text, claim.name) if claim.name in task.text else ()
    return any(same(each.value, claim.value) for each in told)


def _sightings(claim: Claim, seen: Observations) -> Iterator[Sighting]:
    match claim.kind:
        case ClaimKind.LOCATION if claim.line:
            found = seen.lines.get((posixpath.basename(claim.file), claim.line), ())
            yield from (each for file, each in found if same_file(file, claim.file))
        case ClaimKind.LOCATION:
            yield from _of_function(claim.text, seen)
        case ClaimKind.EXCEPTION:
            yield from _of_exception(plain(claim.text), seen)
        case ClaimKind.VALUE:
            yield from sightings_of_value(claim, seen)


def _of_function(name: str, seen: Observations) -> Iterator[Sighting]:
    for known, sighting in seen.functions.items():
        if known == name or known.endswith(f".{name}"):
            yield sighting
    yield from in_texts(name.rpartition(".")[2], seen)


def _of_exception(text: str, seen: Observations) -> Iterator[Sighting]:
    for raised, message, sighting in seen.exceptions:
        if text == raised or text in message:
            yield sighting
    yield from in_texts(text, seen)
