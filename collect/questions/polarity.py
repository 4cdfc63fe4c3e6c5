"""Whether a text says yes or no: that a line is reached, that a test passes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from collect.questions.claims import sentences

LEADING = re.compile(r"^\W*(yes|no|nope|yep|true|false|correct)\b", re.IGNORECASE)
NEGATION = (
    r"(?:not|never|n't|no longer|isn't|wasn't|doesn't|didn't|neither|nor|without being|fails? to)"
)


@dataclass(frozen=True)
class Wording:
    """How a claim is made, and how it is denied, without yes and no."""

    affirmed: re.Pattern[str]
    denied: re.Pattern[str]
    is_exclusive: bool
    """Whether a sentence that denies it affirms nothing: it then tells what happens instead."""


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
    """Every answer that a text gives; both where it contradicts itself.

    A leading yes or no counts for the whole, and what is said beside it only where it names one of
    `about` (a line, a name).
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
