"""Scores an answer: its claims against the truth, fact by fact, never by a language model.

An answer is right if every fact asked for is claimed, once, and is true. A text that says it does
not know, names several candidates or contradicts itself is wrong, even if it contains the truth.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from collect.agents.subagent_task import parse_answer
from collect.question_records import (
    Ask,
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
    Truth,
    ValueAsk,
    ValueTruth,
)
from collect.questions import claims
from collect.questions.claims import sentences
from collect.questions.comparing import parse_value, same, same_text
from collect.questions.value_claims import (
    ValueClaim,
    bare_words,
    compared,
    distinct,
    named_values,
    other_names,
    values_in,
    without_values,
)
from collect.store.records import DebugAnswer

# Whether a text says yes or no: a line is reached, a test passes.


LEADING = re.compile(r"^\W*(yes|no|nope|yep|true|false|correct)\b", re.IGNORECASE)
NEGATION = (
    r"(?:not|never|n't|no longer|isn't|wasn't|doesn't|didn't|neither|nor|without being|fails? to)"
)


@dataclass(frozen=True)
class Wording:
    """How a claim is affirmed or denied without yes and no."""

    affirmed: re.Pattern[str]
    denied: re.Pattern[str]
    is_exclusive: bool
    """Whether a sentence that denies it affirms nothing: it says what happens instead."""


def _wording(verbs: str, denials: str, is_exclusive: bool) -> Wording:
    affirmed = re.compile(rf"\b(?:{verbs})\b", re.IGNORECASE)
    denied = re.compile(rf"{NEGATION}\s+(?:\w+\s+){{0,3}}?(?:{verbs})\b|{denials}", re.IGNORECASE)
    return Wording(affirmed, denied, is_exclusive)


REACHED = _wording(
    r"reach(?:es|ed)?|execut(?:es|ed)|(?:is|gets|be) run|runs|ran|hits?|taken|visit(?:s|ed)|"
    r"entered|comes? to|came to|gets? (?:to|there)|got (?:to|there)|stop(?:s|ped)? (?:at|there)",
    r"\bunreached\b|\bunreachable\b|\bskipped\b|\bzero times\b|\b0 times\b|\bdead code\b|"
    r"\bwithout (?:a|any|ever)\b",
    is_exclusive=True,
)
PASSES = _wording(
    r"pass(?:es|ed|ing)?|succeeds?|succeeded|goes through|is fixed|resolved|green|works",
    r"\bfail(?:s|ed|ing|ure)?\b|\bis (?:still )?broken\b|\bstill (?:raises|breaks|red)\b",
    is_exclusive=False,
)


def says(text: str, wording: Wording, about: tuple[str, ...] = ()) -> set[bool]:
    """Every answer that a text gives; both if it contradicts itself.

    A leading yes or no counts for the whole text. Other statements then count only if they name one
    of `about` (a line, a name).
    """
    leading = LEADING.match(text)
    said: set[bool] = set()
    if leading:
        said.add(leading[1].lower() in ("yes", "yep", "true", "correct"))
    for sentence in sentences(text):
        body = LEADING.sub("", sentence)
        if leading and not any(_names(body, each) for each in about):
            continue
        said |= _said(body, wording)
    return said


def _said(sentence: str, wording: Wording) -> set[bool]:
    denied = [found.span() for found in wording.denied.finditer(sentence)]
    said = {False} if denied else set()
    if denied and wording.is_exclusive:
        return said
    for found in wording.affirmed.finditer(sentence):
        if not any(start <= found.start() < end for start, end in denied):
            said.add(True)
    return said


def _names(sentence: str, name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", sentence) is not None


# The verdict on an answer, as a whole and fact by fact.


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


def score_text(question: Question, text: str) -> Verdict:
    """The verdict on a subagent's last message."""
    answer = parse_answer(text)
    return Verdict(Reason.NO_ANSWER) if answer is None else score(question, answer)


def score(question: Question, answer: DebugAnswer) -> Verdict:
    """The verdict on a parsed answer."""
    supposed = question.category is not Category.ROOT_CAUSE and claims.is_hedged(answer.answer)
    if supposed or claims.is_evasive(answer.answer):
        return Verdict(Reason.EVASIVE)
    facts = tuple(_facts(question.ask, question.truth, answer))
    bad = next((fact.reason for fact in facts if not fact.ok), Reason.RIGHT)
    return Verdict(bad, facts)


def _facts(ask: Ask, truth: Truth, answer: DebugAnswer) -> list[Fact]:
    text = answer.answer
    match ask, truth:
        case ValueAsk(), ValueTruth():
            return [value_fact(text, ask.expression, truth), *_stated_moment(text, ask)]
        case PostFixAsk(), PostFixTruth():
            about = ("test", "tests")
            passes = _yes_or_no("passes", without_values(text), PASSES, truth.passes, about)
            value = value_fact(text, ask.value.expression, truth.value)
            return [passes, value, *_stated_moment(text, ask.value)]
        case ReachAsk(), ReachTruth():
            return _reach(ask, truth, text)
        case _, ExceptionTruth():
            return [_exception_type(text, truth), _place("origin", answer, (truth.origin,))]
        case _, AssertionTruth():
            return _assertion(answer, truth)
        case _, RootCauseTruth():
            return [_function(answer, truth), _place("place", answer, truth.places)]
    raise AssertionError(f"{type(ask).__name__} is asked, and the truth is {type(truth).__name__}")


def value_fact(text: str, expression: str, truth: ValueTruth) -> Fact:
    """Whether the text gives the expression this value and no other."""
    named = distinct(named_values(text, expression))
    if named:
        return _of_claims("value", truth, named)
    bare = bare_words(text, expression) if truth.type == "str" else []
    if bare and all(word == parse_value(truth.text) for word in bare):
        # A string in backticks without its quotes.
        return Fact("value", truth.text, truth.text, Reason.RIGHT)
    free = [c for c in values_in(text) if _may_be_of(text, c, expression)]
    return _of_claims("value", truth, distinct(free))


def _stated_moment(text: str, ask: ValueAsk) -> Iterator[Fact]:
    """Where and when the value was seen, if the text says so: the right value of another line or
    visit is luck."""
    places = claims.locations(text)
    if places and not ask.after:
        right = any(_within(file, line, ask.place) for file, line in places)
        shown = " | ".join(f"{file}:{line}" for file, line in places)
        yield Fact("place", str(ask.place), shown, Reason.RIGHT if right else Reason.WRONG)
    visits = claims.visits(text)
    if visits:
        right = ask.hit in visits
        shown = ", ".join(map(str, visits))
        yield Fact("visit", str(ask.hit), shown, Reason.RIGHT if right else Reason.WRONG)


def _of_claims(name: str, truth: ValueTruth, found: list[ValueClaim]) -> Fact:
    right = bool(found) and same(found[0].value, parse_value(truth.text))
    return _single(name, truth.text, [claim.text for claim in found], right)


def _single(name: str, true: str, said: list[str], right: bool, between: str = " | ") -> Fact:
    """A fact that must be said, once. `right`: whether the first thing said is true."""
    if len(said) == 1:
        reason = Reason.RIGHT if right else Reason.WRONG
    else:
        reason = Reason.SEVERAL if said else Reason.MISSING
    return Fact(name, true, between.join(said), reason)


def _may_be_of(text: str, claim: ValueClaim, expression: str) -> bool:
    """Whether the value is given to no other name and is not the expression itself."""
    name = other_names(text, claim)
    around = text[max(0, claim.start - len(expression)) : claim.end]
    part_of_name = expression in around and claim.text in expression
    return (name is None or name == expression) and not part_of_name


def _reach(ask: ReachAsk, truth: ReachTruth, text: str) -> list[Fact]:
    about = (str(ask.place.line), ask.place.function.rpartition(".")[2])
    counted = claims.counts(text)
    facts = []
    if not (ask.count and counted and not says(text, REACHED, about)):
        facts.append(_yes_or_no("reached", text, REACHED, truth.reached, about))
    if ask.count and truth.reached:
        right = counted[:1] == [truth.count]
        facts.append(_single("count", str(truth.count), list(map(str, counted)), right, ", "))
    elif ask.count and any(counted):
        facts.append(Fact("count", "0", str(counted), Reason.WRONG))
    return facts


def _yes_or_no(name: str, text: str, wording: Wording, true: bool, about: tuple[str, ...]) -> Fact:
    said = says(text, wording, about)
    shown = ["yes" if each else "no" for each in sorted(said)]
    return _single(name, "yes" if true else "no", shown, said == {true}, " and ")


def _exception_type(text: str, truth: ExceptionTruth) -> Fact:
    wanted = truth.type.rpartition(".")[2]
    # The message may name other exceptions.
    without_message = text.replace(truth.message, "") if truth.message else text
    found = claims.exceptions(without_message, wanted)
    return _single("type", wanted, found, found == [wanted])


def _place(name: str, answer: DebugAnswer, places: tuple[Location, ...]) -> Fact:
    """Whether every claimed place lies in a true span.

    An answer without a place uses the block's own location.
    """
    found = claims.locations(answer.answer) or claims.locations(answer.location)[:1]
    shown = " | ".join(f"{file}:{line}" for file, line in found)
    inside = [any(_within(file, line, place) for place in places) for file, line in found]
    if not found:
        reason = Reason.MISSING
    elif all(inside):
        reason = Reason.RIGHT
    else:
        reason = Reason.SEVERAL if any(inside) else Reason.WRONG
    return Fact(name, " | ".join(map(str, places)), shown, reason)


def _within(file: str, line: int, place: Location) -> bool:
    return claims.same_file(file, place.file) and place.line <= line <= place.last_line


def _function(answer: DebugAnswer, truth: RootCauseTruth) -> Fact:
    """Whether the function is named, by its name or by a place inside it."""
    names = {place.function for place in truth.places}
    text = f"{answer.answer}\n{answer.location}"
    short = {name.rpartition(".")[2] for name in names}
    named = any(re.search(rf"(?<!\w){re.escape(n)}(?!\w)", text) for n in short)
    placed = _place("place", answer, truth.places).reason in (Reason.RIGHT, Reason.SEVERAL)
    reason = Reason.RIGHT if named or placed else Reason.WRONG
    return Fact("function", " | ".join(sorted(names)), "named" if named else "", reason)


def _assertion(answer: DebugAnswer, truth: AssertionTruth) -> list[Fact]:
    facts = [_place("place", answer, (truth.place,))]
    text = answer.answer
    found = compared(text)
    facts.append(_side("actual", found.actual, truth.actual, text))
    if truth.expected is not None:
        facts.append(_side("expected", found.expected, truth.expected, text))
    return facts


def _side(name: str, found: list[ValueClaim], truth: ValueTruth, text: str) -> Fact:
    if truth.type == "str" and not found:
        bare = bare_words(text, name)
        if bare and all(same_text(repr(word), truth.text) for word in bare):
            return Fact(name, truth.text, bare[0], Reason.RIGHT)
    return _of_claims(name, truth, distinct(found))
