"""Scores an answer: its claims against the truth, fact by fact, never by a language model.

An answer is right if every fact asked for is claimed, once, and is true. A text that says it does
not know, names several candidates or contradicts itself is wrong, even if it contains the truth.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from collect.agents.subagent_task import parse_answer
from collect.code.patches import TestFiles
from collect.question_records import (
    AssertionTruth,
    Category,
    ExceptionTruth,
    Location,
    PostFixAsk,
    PostFixTruth,
    Question,
    ReachAsk,
    ReachTruth,
    RootCauseTruth,
    ValueAsk,
    ValueTruth,
)
from collect.questions import claims
from collect.questions.claims import ValueClaim, distinct
from collect.questions.comparing import Text, parse_value, same, same_text
from collect.questions.grounding import ground
from collect.store.records import SESSION_START, Conversation, DebugAnswer, ToolOutcome

LEADING = re.compile(r"^\W*(yes|no|nope|yep|true|false|correct)\b", re.IGNORECASE)
NEGATION = (
    r"(?:not|never|n't|no longer|isn't|wasn't|doesn't|didn't|neither|nor|without being|fails? to)"
)


class Wording:
    """How a claim is affirmed or denied without yes and no."""

    def __init__(self, verbs: str, denials: str, is_exclusive: bool) -> None:
        """`is_exclusive`: whether a sentence that denies it affirms nothing, since it says what
        happens instead."""
        denied = rf"{NEGATION}\s+(?:\w+\s+){{0,3}}?(?:{verbs})\b|{denials}"
        self._affirmed = re.compile(rf"\b(?:{verbs})\b", re.IGNORECASE)
        self._denied = re.compile(denied, re.IGNORECASE)
        self._is_exclusive = is_exclusive

    def said(self, text: str, about: tuple[str, ...]) -> set[bool]:
        """Every answer that a text gives; both if it contradicts itself. A leading yes or no counts
        for the whole text, and then other statements only if they name one of `about`."""
        leading = LEADING.match(text)
        names = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, about))})(?!\w)")
        said = {leading[1].lower() in ("yes", "yep", "true", "correct")} if leading else set()
        for sentence in re.split(r"(?<=[.!?;])\s+|\n+", text):
            body = LEADING.sub("", sentence)
            if leading and not names.search(body):
                continue
            denied = [found.span() for found in self._denied.finditer(body)]
            if denied:
                said.add(False)
            for found in () if denied and self._is_exclusive else self._affirmed.finditer(body):
                if not any(start <= found.start() < end for start, end in denied):
                    said.add(True)
        return said


REACHED = Wording(
    r"reach(?:es|ed)?|execut(?:es|ed)|(?:is|gets|be) run|runs|ran|hits?|taken|visit(?:s|ed)|"
    r"entered|comes? to|came to|gets? (?:to|there)|got (?:to|there)|stop(?:s|ped)? (?:at|there)",
    r"\bunreached\b|\bunreachable\b|\bskipped\b|\bzero times\b|\b0 times\b|\bdead code\b|"
    r"\bwithout (?:a|any|ever)\b",
    is_exclusive=True,
)
PASSES = Wording(
    r"pass(?:es|ed|ing)?|succeeds?|succeeded|goes through|is fixed|resolved|green|works",
    r"\bfail(?:s|ed|ing|ure)?\b|\bis (?:still )?broken\b|\bstill (?:raises|breaks|red)\b",
    is_exclusive=False,
)


class Reason(StrEnum):
    """Why a fact or an answer is right or wrong."""

    RIGHT = "right"
    WRONG = "wrong"
    MISSING = "missing"
    SEVERAL = "several"
    """One question gets more than one answer."""
    EVASIVE = "evasive"
    """It says that it does not know."""
    NO_ANSWER = "no_answer"
    """There is no valid answer block."""


@dataclass(frozen=True)
class Fact:
    """One fact that was asked for."""

    name: str
    true: str
    claimed: str
    reason: Reason

    @property
    def ok(self) -> bool:
        return self.reason is Reason.RIGHT


@dataclass(frozen=True)
class Verdict:
    reason: Reason
    facts: tuple[Fact, ...] = ()

    @property
    def correct(self) -> bool:
        return self.reason is Reason.RIGHT

    @property
    def share(self) -> float:
        """The share of right facts."""
        return sum(fact.ok for fact in self.facts) / len(self.facts) if self.facts else 0.0


@dataclass(frozen=True)
class Reward:
    """A conversation's reward by part, each from 0 to 1, `invalid_calls` from -1 to 0.
    `train.config.RewardSettings` describes the parts."""

    correct: float
    facts: float
    form: float
    invalid_calls: float


def reward_of(
    question: Question, held: Conversation, require_session: bool = True, lost_calls: int = 0
) -> Reward:
    """The reward for a conversation about a question. `lost_calls` are those that reached no tool,
    and so have no outcome in it."""
    called = (row for row in held.events if row.tool_call_id != SESSION_START)
    has_session = any(row.event.error_kind is None for row in called)
    verdict, counts = score_text(question, held.final_answer), has_session or not require_session
    outcomes = [row.tool_outcome for row in held.messages if row.tool_outcome is not None]
    wrong = lost_calls + sum(map(outcomes.count, (ToolOutcome.INVALID, ToolOutcome.REFUSED)))
    grounded = ground(held, TestFiles()).score in (None, 1.0)
    return Reward(
        correct=float(verdict.correct and counts and grounded),
        facts=verdict.share if counts else 0.0,
        form=float(parse_answer(held.final_answer) is not None and counts),
        invalid_calls=-wrong / calls if (calls := len(outcomes) + lost_calls) else 0.0,
    )


def score_text(question: Question, text: str) -> Verdict:
    """The verdict on a subagent's last message."""
    answer = parse_answer(text)
    return Verdict(Reason.NO_ANSWER) if answer is None else score(question, answer)


def score(question: Question, answer: DebugAnswer) -> Verdict:
    """The verdict on a parsed answer."""
    text = answer.answer[: claims.MAX_CHARACTERS]
    for aside in (claims.INFERRED, claims.NOT_ASKED):
        text = aside.sub("", text)
    answer = replace(answer, answer=text)
    guesses = question.category is not Category.ROOT_CAUSE and claims.HEDGED.search(text)
    if guesses or not text.strip() or claims.EVASIVE.search(text):
        return Verdict(Reason.EVASIVE)
    facts = tuple(_facts(question, answer))
    wrong = [fact.reason for fact in facts if not fact.ok]
    return Verdict(wrong[0] if wrong else Reason.RIGHT, facts)


def _facts(question: Question, answer: DebugAnswer) -> Iterator[Fact]:
    text = answer.answer
    match question.ask, question.truth:
        case ValueAsk() as ask, ValueTruth() as truth:
            yield from _value(text, ask, truth)
        case PostFixAsk(value=value), PostFixTruth() as truth:
            rest = claims.without_values(text)
            yield _yes_or_no("passes", truth.passes, PASSES.said(rest, ("test", "tests")))
            yield from _value(text, value, truth.value)
        case ReachAsk() as ask, ReachTruth() as truth:
            yield from _reach(ask, truth, text)
        case _, ExceptionTruth() as truth:
            wanted = truth.type.rpartition(".")[2]
            # The message may name other exceptions.
            without_message = text.replace(truth.message, "") if truth.message else text
            found = claims.exceptions(without_message, wanted)
            yield _single("type", wanted, found, found == [wanted])
            yield _place("origin", answer, (truth.origin,))
        case _, AssertionTruth() as truth:
            yield _place("place", answer, (truth.place,))
            actual, expected = claims.compared(text)
            yield _side("actual", actual, truth.actual, text)
            if truth.expected is not None:
                yield _side("expected", expected, truth.expected, text)
        case _, RootCauseTruth() as truth:
            place = _place("place", answer, truth.places)
            names = {each.function for each in truth.places}
            short = "|".join(re.escape(name.rpartition(".")[2]) for name in names)
            said = re.search(rf"(?<!\w)(?:{short})(?!\w)", f"{text}\n{answer.location}")
            # The function is named by its name or by a place inside it.
            named = said or place.reason in (Reason.RIGHT, Reason.SEVERAL)
            true, claimed = " | ".join(sorted(names)), "named" if said else ""
            yield Fact("function", true, claimed, Reason.RIGHT if named else Reason.WRONG)
            yield place


def _value(text: str, ask: ValueAsk, truth: ValueTruth) -> Iterator[Fact]:
    """Whether the text gives the expression this value and no other; and where and when it was
    seen, if the text says so: the right value of another line or visit is luck."""
    named = distinct(claims.named_values(text, ask.expression))
    bare = claims.bare_words(text, ask.expression) if truth.type == "str" else []
    if not named and bare and all(word == parse_value(truth.text) for word in bare):
        # A string in backticks without its quotes.
        yield Fact("value", truth.text, truth.text, Reason.RIGHT)
    elif _is_loose(truth.text) and claims.is_given(text, ask.expression, truth.text):
        yield Fact("value", truth.text, truth.text, Reason.RIGHT)
    else:
        free = [c for c in claims.values_in(text) if _may_be_of(text, c, ask.expression)]
        yield _of_claims("value", truth, named or distinct(free))
    places = claims.locations(text)
    if places and not ask.after:
        right = any(_within(file, line, ask.place) for file, line in places)
        shown = " | ".join(f"{file}:{line}" for file, line in places)
        yield Fact("place", str(ask.place), shown, Reason.RIGHT if right else Reason.WRONG)
    visits = claims.visits(text)
    if visits:
        reason = Reason.RIGHT if ask.hit in visits else Reason.WRONG
        yield Fact("visit", str(ask.hit), ", ".join(map(str, visits)), reason)


def _is_loose(text: str) -> bool:
    """Whether a value's text has no form of its own, such as `mon,A,100` of an object in Java."""
    value = parse_value(text)
    return isinstance(value, Text) or (isinstance(value, tuple) and not text.startswith("("))


def _may_be_of(text: str, claim: ValueClaim, expression: str) -> bool:
    """Whether the value is given to no other name and is not the expression itself."""
    name = claims.other_names(text, claim)
    around = text[max(0, claim.start - len(expression)) : claim.end]
    part_of_name = expression in around and claim.text in expression
    return name in (None, expression) and not part_of_name


def _of_claims(name: str, truth: ValueTruth, found: list[ValueClaim]) -> Fact:
    right = bool(found) and same(found[0].value, parse_value(truth.text))
    return _single(name, truth.text, [claim.text for claim in found], right)


def _single(name: str, true: str, said: list[str], right: bool, between: str = " | ") -> Fact:
    """A fact that must be said, once. `right`: whether the first thing said is true."""
    reason = Reason.RIGHT if right else Reason.WRONG
    if len(said) != 1:
        reason = Reason.SEVERAL if said else Reason.MISSING
    return Fact(name, true, between.join(said), reason)


def _yes_or_no(name: str, true: bool, said: set[bool]) -> Fact:
    shown = ["yes" if each else "no" for each in sorted(said)]
    return _single(name, "yes" if true else "no", shown, said == {true}, " and ")


def _reach(ask: ReachAsk, truth: ReachTruth, text: str) -> Iterator[Fact]:
    said = REACHED.said(text, (str(ask.place.line), ask.place.function.rpartition(".")[2]))
    counted = claims.counts(text)
    if said or not ask.count or not counted:
        yield _yes_or_no("reached", truth.reached, said)
    if ask.count and truth.reached:
        shown = list(map(str, counted))
        yield _single("count", str(truth.count), shown, counted[:1] == [truth.count], ", ")
    elif ask.count and any(counted):
        yield Fact("count", "0", str(counted), Reason.WRONG)


def _place(name: str, answer: DebugAnswer, places: tuple[Location, ...]) -> Fact:
    """Whether every claimed place lies in a true span."""
    found = claims.committed(answer.answer, answer.location)
    shown = " | ".join(f"{file}:{line}" for file, line in found)
    inside = [any(_within(file, line, place) for place in places) for file, line in found]
    reason = Reason.SEVERAL if any(inside) else Reason.WRONG
    if all(inside):
        reason = Reason.RIGHT if found else Reason.MISSING
    return Fact(name, " | ".join(map(str, places)), shown, reason)


def _within(file: str, line: int, place: Location) -> bool:
    return claims.same_file(file, place.file) and place.line <= line <= place.last_line


def _side(name: str, found: list[ValueClaim], truth: ValueTruth, text: str) -> Fact:
    bare = claims.bare_words(text, name) if truth.type == "str" and not found else []
    if bare and all(same_text(repr(word), truth.text) for word in bare):
        return Fact(name, truth.text, bare[0], Reason.RIGHT)
    return _of_claims(name, truth, distinct(found))
