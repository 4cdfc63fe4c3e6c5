"""What a text says a failing assertion has compared."""

from __future__ import annotations

import re
from dataclasses import dataclass

from collect.questions.value_claims import ValueClaim, blank, values_in

EXPECTED = (
    r"expect(?:ed|s|ing)|should(?: have)? (?:be|been|equal)|"
    r"(?:instead|in place) of|rather than|wanted"
)
ACTUAL = (
    r"actual(?:ly)?|got|gave|gives|gets|return(?:s|ed)|produce[sd]|came to|comes to|computed|"
    r"but (?:was|is)"
)
ROLE = re.compile(rf"\b(?:(?P<expected>{EXPECTED})|(?P<actual>{ACTUAL}))\b", re.IGNORECASE)
AFTERWARDS = re.compile(
    r"[`*\s]*(?:was|is|were|had been|being)?\s*(?P<role>expected|wanted|actual)\b"
)
ASSERT_CODE = re.compile(r"`\s*assert\b[^`\n]*`")
UNEQUAL = re.compile(r"[`*\s]*(?:==|!=|≠|is not|vs\.?|against|does not equal)[`*\s]*$")


@dataclass(frozen=True)
class Compared:
    """What a text says a failing assertion has compared."""

    actual: list[ValueClaim]
    expected: list[ValueClaim]


def compared(text: str) -> Compared:
    """The actual and the expected value that a text tells, by the words around each."""
    told = _compared(ASSERT_CODE.sub(blank, text))
    return told if told.actual or told.expected else _compared(text)


def _compared(text: str) -> Compared:
    found = values_in(text)
    actual: list[ValueClaim] = []
    expected: list[ValueClaim] = []
    rest: list[ValueClaim] = []
    ends = [0, *(claim.end for claim in found)]
    starts = [*(claim.start for claim in found), len(text)]
    for number, claim in enumerate(found):
        before = text[ends[number] : claim.start]
        role = _role(before, text[claim.end : starts[number + 1]])
        if role is None and UNEQUAL.search(before) and number:
            role = "expected"
        {"actual": actual, "expected": expected, None: rest}[role].append(claim)
    return Compared(actual or rest, expected)


def _role(before: str, after: str) -> str | None:
    """Whether a value is the actual or the expected one."""
    behind = AFTERWARDS.match(after)
    if behind is not None:
        return "actual" if behind["role"] == "actual" else "expected"
    roles = [found.lastgroup for found in ROLE.finditer(before)]
    return roles[-1] if roles else None
