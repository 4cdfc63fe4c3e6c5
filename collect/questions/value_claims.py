"""Finds values in an answer's text, and the names they are given to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from collect.questions.comparing import Name, Text, parse_value, same

NUMBER = r"-?(?:0[xob])?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?j?|-?(?:inf|nan)\b"
NUMBERS = re.compile(rf"(?<![\w.])(?:{NUMBER})(?![\w])")
STRING = re.compile(r"(?:\b[rbuRBU]{1,2})?('(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")")
WORD = re.compile(r"(?:True|False|None)\b")
OBJECT = re.compile(r"<[A-Za-z_]")
CALL = re.compile(r"(?:[A-Za-z_][\w.]*)?[\[({]")
CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
NOT_VALUES = re.compile(
    r"[\w./-]+\.(?:py|java):\d+(?:-\d+)?|\blines?\s+\d+(?:\s*(?:-|to|and)\s*\d+)?|"
    r"\b\d+(?:st|nd|rd|th)\b|\b(?:hit|visit|frame|attempt|run|breakpoint|step|time|call|iteration)"
    r"s?\s+(?:number\s+|no\.\s*)?#?\d+|#\d+|\b\d+ (?:times?|hits?|visits?)\b|"
    r"\b\d+ (?:items?|elements?|entries|entry|characters?|chars|keys?|lines?|frames?|steps?)\b|"
    r"(?<![\w./])test_\w+|[\w./-]+::[\w:\[\].-]+|\bexit code \d+",
    re.IGNORECASE,
)
WHERE = re.compile(
    r"\b(?:in|at|inside|within|before|after|when|into|on|by|line|entering|reaching)\s+`[^`\n]*`"
)
IS = (
    r"(?:={1,3}|:=|:|->|→|\bis\b|\bwas\b|\bbecomes?\b|\bbecame\b|\bholds?\b|\bheld\b|\bequals?\b|"
    r"\bequal(?:led|ed) to\b|\bcontain(?:s|ed)\b|\bha[sd] (?:the |a )?value\b|\bhas\b|\bhad\b|"
    r"\bevaluates? to\b|\breturn(?:s|ed)\b|\bshows?\b|\bcomes? to\b|\bcame to\b|\bgives?\b|\bgot\b)"
)
FILLER = (
    r"(?:\s*(?:still|now|then|there|really|actually|exactly|equal|to|the|an?|value|of|list|dict|"
    r"dictionary|string|text|integer|int|float|number|tuple|set|object|just|already|either|back|as|"
    r"instance)\b(?!\()|\s*[`*:])*\s*"
)
OR = re.compile(r"[`*]*\s*(?P<word>,|/|\bor\b|,\s*or\b|,?\s*(?:maybe|possibly|perhaps)\b)" + FILLER)
"""Separates two candidates."""


@dataclass(frozen=True)
class ValueClaim:
    """A value in a text."""

    value: object
    text: str
    start: int
    end: int


def read_value(text: str, start: int) -> ValueClaim | None:
    """The longest representation of a value that starts at a position."""
    for pattern in (STRING, WORD):
        found = pattern.match(text, start)
        if found:
            return _claim(text, start, found.end())
    if OBJECT.match(text, start) or CALL.match(text, start):
        end = _balanced(text, start)
        if end is not None:
            return _claim(text, start, end)
    found = re.compile(NUMBER).match(text, start)
    return _claim(text, start, found.end()) if found else None


def values_in(text: str) -> list[ValueClaim]:
    """Every value in a text, except line numbers, ordinals and counts."""
    hidden = _without_places(text)
    claims: list[ValueClaim] = []
    position = 0
    starts = re.compile(
        r"['\"\[({]|<(?=[A-Za-z_])|\b[rbuRBU]?['\"]|(?<![\w.])-?\d|\b[A-Za-z_][\w.]*\(|"
        r"\b(?:True|False|None|inf|nan)\b"
    )
    while found := starts.search(hidden, position):
        if _is_apostrophe(hidden, found.start()):
            position = found.end()
            continue
        if _is_subscript(hidden, found.start()):
            position = _balanced(hidden, found.start()) or found.end()
            continue
        claim = read_value(hidden, found.start())
        if claim is None or _is_prose(claim):
            position = found.end()
            continue
        claims.append(claim)
        position = claim.end
    return claims


def named_values(text: str, name: str) -> list[ValueClaim]:
    """The values that a text gives to a name: `name` = value, the value of `name` at ... is."""
    hidden = _without_places(text)
    spot = re.compile(rf"(?<![\w.\]'\"]){re.escape(name)}(?![\w(\[]|\.\w)")
    claims: list[ValueClaim] = []
    for found in spot.finditer(hidden):
        if claims and found.start() < claims[-1].end:
            continue
        tail = re.compile(rf"[`*]*(?:[^.;\n`=]|\.(?=\w)){{0,80}}?{IS}{FILLER}")
        given = tail.match(hidden, found.end())
        while given is not None:
            claim = read_value(hidden, given.end())
            if claim is not None and not _is_prose(claim):
                claims += [claim, *_alternatives(hidden, claim.end)]
                break
            given = tail.match(hidden, given.end())
    return claims


def _alternatives(text: str, position: int) -> list[ValueClaim]:
    """Further candidates after a value: `5, 6 or 7`."""
    found: list[ValueClaim] = []
    words: list[str] = []
    while joined := OR.match(text, position):
        claim = read_value(text, joined.end())
        if claim is None or _is_prose(claim):
            break
        found.append(claim)
        words.append(joined["word"])
        position = claim.end
    return found if any(word != "," for word in words) else []


@lru_cache(64)
def _without_places(text: str) -> str:
    """The text with non-values blanked out, including code that only names a place."""
    hidden = NOT_VALUES.sub(blank, text)
    return WHERE.sub(blank, hidden)


def without_values(text: str) -> str:
    """The text with every value blanked out."""
    for claim in values_in(text):
        text = text[: claim.start] + " " * (claim.end - claim.start) + text[claim.end :]
    return text


def blank(found: re.Match[str]) -> str:
    """The same number of spaces, so that positions stay valid."""
    return " " * len(found[0])


def bare_words(text: str, name: str) -> list[str]:
    """The unquoted text in backticks if a text gives a value to a name."""
    pattern = re.compile(rf"{re.escape(name)}[`*]*[^.;\n`]{{0,80}}?{IS}\s*`([^`\n]*)`")
    return [found[1] for found in pattern.finditer(text)]


def other_names(text: str, claim: ValueClaim) -> str | None:
    """The name in code that a value is given to just before it, or None."""
    before = text[: claim.start]
    found = re.search(rf"(?:`([^`\n]+)`|\b([A-Za-z_][\w.\[\]'\"]*))[`*]*\s*{IS}{FILLER}$", before)
    if found is None:
        return None
    if found[1]:
        # In `total = a + b` evaluates to ..., the target has the value.
        return re.split(r"\s*(?<![=!<>])=(?!=)\s*", found[1])[0]
    is_code = re.search(r"[_.\[]", found[2]) or re.search(r"=\s*`?$", before)
    return found[2] if is_code else None


def distinct(claims: list[ValueClaim]) -> list[ValueClaim]:
    """Each value once."""
    kept: list[ValueClaim] = []
    for claim in claims:
        if not any(same(claim.value, other.value) for other in kept):
            kept.append(claim)
    return kept


def _claim(text: str, start: int, end: int) -> ValueClaim:
    return ValueClaim(parse_value(text[start:end]), text[start:end], start, end)


def _balanced(text: str, start: int) -> int | None:
    """Where the brackets that start here are closed; strings inside are skipped."""
    stack: list[str] = []
    position = start
    while position < len(text):
        quoted = STRING.match(text, position) if text[position] in "'\"" else None
        if quoted:
            position = quoted.end()
            continue
        char = text[position]
        if char in CLOSING and (char != "<" or position == start or stack[-1:] == [">"]):
            stack.append(CLOSING[char])
        elif stack and char == stack[-1]:
            stack.pop()
            if not stack:
                return position + 1
        position += 1
    return None


def _is_prose(claim: ValueClaim) -> bool:
    """Whether it is a remark in brackets: `(the second visit)`."""
    opening = claim.text[0]
    said = isinstance(claim.value, Name) and opening == "("
    return said or (isinstance(claim.value, Text) and opening != "<")


def _is_subscript(text: str, start: int) -> bool:
    return (
        text[start] == "[" and start > 0 and (text[start - 1].isalnum() or text[start - 1] in "_])")
    )


def _is_apostrophe(text: str, start: int) -> bool:
    return text[start] == "'" and start > 0 and text[start - 1].isalnum()


# What a failing assertion compared, according to a text.


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
    actual: list[ValueClaim]
    expected: list[ValueClaim]


def compared(text: str) -> Compared:
    """The actual and expected value in a text, by the words around each."""
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
