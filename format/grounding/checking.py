"""Each claim of an answer against what its conversation was given, and what it observed.

A value that is given to a name must have been seen under that name. Where the name was never seen,
as that of an expression in the model's own words, a telling value must have been seen at least
somewhere; one that anybody would guess (0, True, an empty list) grounds nothing there. A name and
its value that stand in an observation just as in the answer count: what was seen is quoted.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from collect.agents.repair.inspector import plan_of
from collect.questions.claims import places, same_file
from collect.questions.comparing import parse_value, same
from collect.questions.readable import GUESSED
from collect.questions.value_claims import named_values, values_in
from collect.records import Conversation, Role
from format.bug_tests import TestFiles
from format.grounding.claims import claims_in
from format.grounding.observations import Observations, Sighting, last_part, observed, plain
from format.grounding.records import Claim, ClaimKind, GroundedClaim, Grounding, Support

REPAIR = re.compile(r"\bto fix (?:the|this) (?:bug|problem|issue)\b", re.IGNORECASE)
"""Where a plan goes on to what should be changed, which nobody can have observed."""
TELLING_CHARACTERS = 3
"""Of a string or a number: a shorter one stands everywhere."""
_parsed = lru_cache(maxsize=4_096)(parse_value)


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
        """Files and lines."""
        return [(file, line) for file, line, _ in places(self.text)]

    @cached_property
    def values(self) -> Sequence[object]:
        """All values, whatever they are of."""
        return [each.value for each in values_in(self.text)]


def ground(conversation: Conversation, tests: TestFiles) -> Grounding:
    """The claims of a conversation's answer or plan, and what each rests on."""
    texts = answer_texts(conversation)
    claims = {(c.kind, str(c)): c for text in texts for c in claims_in(text)}
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
        return _has_word(task.plain, plain(claim.text))
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
            yield from _of_value(claim, seen)


def _of_function(name: str, seen: Observations) -> Iterator[Sighting]:
    for known, sighting in seen.functions.items():
        if known == name or known.endswith(f".{name}"):
            yield sighting
    yield from _in_texts(name.rpartition(".")[2], seen)


def _of_exception(text: str, seen: Observations) -> Iterator[Sighting]:
    for raised, message, sighting in seen.exceptions:
        if text == raised or text in message:
            yield sighting
    yield from _in_texts(text, seen)


def _of_value(claim: Claim, seen: Observations) -> Iterator[Sighting]:
    text = plain(claim.text)
    if claim.name:
        for words in {plain(claim.quote), f"{plain(claim.name)} = {text}"}:
            yield from _in_texts(words, seen)
        under_name = seen.values.get(last_part(claim.name), ())
        yield from (each for shown, each in under_name if _shows(shown, claim))
        if under_name:
            return
    if claim.name and not _is_telling(claim):
        return
    for found in seen.values.values():
        yield from (each for shown, each in found if _shows(shown, claim))
    for form in _forms(claim):
        yield from _in_texts(form, seen)


def _shows(shown: str, claim: Claim) -> bool:
    """Whether a representation is of the claimed value."""
    return plain(shown) == plain(claim.text) or same(_parsed(shown), claim.value)


def _is_telling(claim: Claim) -> bool:
    """Whether a value is one that nobody would guess."""
    if claim.text in GUESSED:
        return False
    is_number = isinstance(claim.value, int | float) and not isinstance(claim.value, bool)
    return not is_number or len(claim.text) >= TELLING_CHARACTERS


def _forms(claim: Claim) -> Iterator[str]:
    """How a value may stand in a text."""
    yield plain(claim.text)
    if isinstance(claim.value, str) and claim.value.strip():
        quoted = len(claim.value) < TELLING_CHARACTERS
        yield from (f"'{claim.value}'", f'"{claim.value}"') if quoted else (plain(claim.value),)


def _in_texts(words: str, seen: Observations) -> Iterator[Sighting]:
    return (sighting for text, sighting in seen.texts if _has_word(text, words))


def _has_word(text: str, words: str) -> bool:
    """Whether a text holds the words, not as part of longer ones: `1` is not in `12` or `1.5`."""
    position = text.find(words)
    while words and position >= 0:
        end = position + len(words)
        before, after = text[max(0, position - 1) : position], text[end : end + 2]
        runs_on = _is_wordy(words[-1]) and (
            _is_wordy(after[:1]) or (words[-1].isdigit() and re.match(r"\.\d", after) is not None)
        )
        if not runs_on and not (_is_wordy(words[0]) and _is_wordy(before)):
            return True
        position = text.find(words, position + 1)
    return False


def _is_wordy(char: str) -> bool:
    return char.isalnum() or char == "_"
