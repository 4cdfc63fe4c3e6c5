"""Reads the claims in an answer's text, by patterns: places, exceptions, counts, values and their
names, and admissions of not knowing. Nothing is inferred from the question."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from collect.questions.comparing import Name, Text, parse_value, same

HEDGED = re.compile(
    r"\b(?:probably|presumably|likely|perhaps|maybe|possibly|i guess|i assume|i suppose|i believe|"
    r"i would expect|i'd expect|might be|may be|could be|seems to be|appears to be)\b",
    re.IGNORECASE,
)
EVASIVE = re.compile(
    r"\b(?:could not|couldn't|cannot|can not|can't|unable to|not able to|did(?: not|n't) manage to|"
    r"failed to|"
    r"was not possible to|impossible to)\s+(?:be\s+)?(?:reliably\s+|fully\s+)?"
    r"(?:determin|establish|tell|verif|confirm|observ|say|find out|answer|inspect|see)|"
    r"\b(?:unknown|undetermined|inconclusive|unclear|not sure|no idea|not established|"
    r"not observed|don'?t know|do not know|hard to say|depends on)\b",
    re.IGNORECASE,
)
INFERRED = re.compile(r"\(?\binferred:.*?(?:\.\)?(?=\s|$)|\n|$)", re.IGNORECASE)
"""A sentence that is marked as read off the code, as the prompt asks: it claims nothing."""
NOT_ASKED = re.compile(r"(?:(?<=[.!?]\s)|^)why\b[^\n]*?(?:\.(?=\s|$)|\n|$)", re.IGNORECASE)
"""A sentence about a reason; no question asks for one."""
FOLDERS = r"[\w./-]{0,200}"
"""Without a limit, a text of such characters alone is read again from each of them."""
LOCATION = re.compile(
    rf"(?P<file>{FOLDERS}\w\.(?:py|java))(?::|,?\s+(?:at\s+)?(?:line|l\.)\s+|\s*\(line\s+)(?P<line>\d+)"
)
LINE_OF = re.compile(
    r"\blines?\s+(?P<line>\d+)\s+(?:of|in)\s+(?:the\s+file\s+)?`?(?P<file>[\w./-]*\w\.(?:py|java))",
    re.IGNORECASE,
)
CONTEXT = re.compile(
    r"(?:caller|(?:called|invoked) (?:from|by|at|in)|(?:handled|caught) (?:at|in|by)|"
    r"reached (?:from|via)|propagates? (?:to|through|up)|(?:surfaces?|ends?) (?:at|in)|via|through|"
    r"(?:comes?|shows?) up (?:at|in)|back (?:at|in|to)|(?:observed|stopped) (?:at|in)|"
    r"(?:from|in) the test|not (?:at|in|from))\W*(?:[\w.]+\W+){0,4}$",
    re.IGNORECASE,
)
"""Text before a place that is only on the way."""
EXCEPTION = re.compile(
    r"\b(?:[a-z_]\w*\.){0,20}[A-Z]\w*(?:Error|Exception|Warning|Exit|Interrupt|Iteration|Failure|Fault)\b"
)
NOT_RAISED = re.compile(
    r"\b(?:not|rather than|instead of|isn't|no|except|catch(?:es|ing)?|caught|handl(?:es?|ing)|"
    r"caused by|wraps?|wrapping)\s+(?:an?\s+|the\s+)?`?$",
    re.IGNORECASE,
)
"""Text before an exception that is not the one in question."""
COUNT = re.compile(
    r"\b(?P<number>\d+|once|twice|thrice|zero|one|two|three|four|five|six|seven|eight|nine|ten|"
    r"eleven|twelve)(?:\s+(?:separate\s+|different\s+)?(?:times?|hits?|visits?|stops?)\b)?"
)
NOT_COUNTS = re.compile(
    rf"{FOLDERS}\.(?:py|java):\d+|\blines?\s+\d+|at once|once (?:the|it|that|this|again)|"
    r"(?<!\d)\d++(?:st|nd|rd|th)"
)
WORDS = {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
WORDS |= {"eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12}
WORDS |= {"once": 1, "twice": 2, "thrice": 3}
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
VISIT = re.compile(
    rf"\b(?:(?P<word>{'|'.join(ORDINALS)})|(?P<number>\d+)(?:st|nd|rd|th))\s+"
    r"(?:time|visit|hit|run|execution|stop)\b|"
    r"\b(?:visit|hit)\s+(?:number\s+|no\.\s*|#)?(?P<after>\d+)\b",
    re.IGNORECASE,
)

NUMBER = re.compile(r"-?(?:0[xob])?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?j?|-?(?:inf|nan)\b")
STRING = re.compile(r"(?:\b[rbuRBU]{1,2})?('(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")")
WORD = re.compile(r"(?:True|False|None)\b")
OBJECT = re.compile(r"<[A-Za-z_]")
CALL = re.compile(r"(?:[A-Za-z_][\w.]*)?[\[({]")
CLOSING = {"(": ")", "[": "]", "{": "}", "<": ">"}
NOT_VALUES = re.compile(
    rf"{FOLDERS}\.(?:py|java):\d+(?:-\d+)?|\blines?\s+\d+(?:\s*(?:-|to|and)\s*\d+)?|"
    r"\b\d+(?:st|nd|rd|th)\b|\b(?:hit|visit|frame|attempt|run|breakpoint|step|time|call|iteration)"
    r"s?\s+(?:number\s+|no\.\s*)?#?\d+|#\d+|\b\d+ (?:times?|hits?|visits?)\b|"
    r"\b\d+ (?:items?|elements?|entries|entry|characters?|chars|keys?|lines?|frames?|steps?)\b|"
    r"(?<![\w./])test_\w+|[\w./-]{1,200}::[\w:\[\].-]+|\bexit code \d+",
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
PLACES_APART = re.compile(
    r"[`*)\s]*+(?:,|/|\band\b)?\s*+(?:in|at)?[`*(\s]*+|(?=[^.;:]*+\Z).*\b(?:or|either)\b.*",
    re.IGNORECASE | re.DOTALL,
)
"""What stands between two places of which either may be meant."""
OR = re.compile(r"[`*]*+\s*+(?P<word>,|/|\b(?:or|maybe|possibly|perhaps)\b)" + FILLER)
"""Separates two candidates."""
VALUE_START = re.compile(
    r"['\"\[({]|<(?=[A-Za-z_])|\b[rbuRBU]?['\"]|(?<![\w.])-?\d|\b[A-Za-z_][\w.]{0,200}\(|"
    r"\b(?:True|False|None|inf|nan)\b"
)
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
    r"[`*\s]*+(?:was|is|were|had been|being|\((?=\w+\)))?\s*+(?P<role>expected|wanted|actual)\b"
)
ASSERT_CODE = re.compile(r"`\s*assert\b[^`\n]*`")
UNEQUAL = re.compile(r"(?:==|!=|≠|is not|vs\.?|against|does not equal)[`*\s]*+$")

NO_VALUE = r"(?:\s+(?:[,;]|\.(?![\w.]))|\s*(?<!`)``(?!`))"
GAP = re.compile(
    rf"{IS}{NO_VALUE}|\b(?:{EXPECTED}|{ACTUAL}){NO_VALUE}|(?:=|:=|->|→)\s*(?:[,;]|\.(?![\w.])|\Z)|"
    r"\bvalue\b(?:[^.;\n]|\.(?=\w)){0,80}\b(?:is|was)\s*\Z",
    re.IGNORECASE,
)
"""Where a sentence ends in place of the value that it announces: `the value is .`"""
NOTHING = re.compile(
    r"[\s*_.…`'\"(),;:-]*|"
    r"\W*(?:none|nothing|no evidence|n/?a|null|unknown|not (?:applicable|available)|"
    r"(?:variable )?values and stack frames you)"
    r"(?: (?:was |were )?(?:observed|seen|found|given|available))?\W*",
    re.IGNORECASE,
)
"""No evidence, or words for it, among them those of the prompt's form."""


MAX_CHARACTERS, MAX_VALUE = 6_000, 1_000
"""Characters read of an answer's field, and of a value: longer ones are slow to read, and repeat
themselves."""


MAX_DEPTH = 200
"""Brackets inside each other: Python reads no more."""


def _number(digits: str) -> int:
    """No larger than a line's or a hit's: Python refuses thousands of digits."""
    return int(digits[:9])


def places(text: str) -> list[tuple[str, int, int]]:
    """Every place in a text, in order: file, line, and position in the text."""
    found = [*LOCATION.finditer(text), *LINE_OF.finditer(text)]
    found.sort(key=lambda each: each.start())
    return [
        (each["file"].removeprefix("./"), _number(each["line"]), each.start()) for each in found
    ]


def is_place(text: str) -> bool:
    """Whether a text is a place in a file, and nothing else."""
    return LOCATION.fullmatch(text) is not None


def is_file(text: str) -> bool:
    """Whether a text without blanks is a source file's name."""
    return text.endswith((".py", ".java"))


def has_gap(text: str) -> bool:
    """Whether a text announces a value and does not give it."""
    text = text[:MAX_CHARACTERS]
    for claim in values_in(text):
        text = text[: claim.start] + "_" * (claim.end - claim.start) + text[claim.end :]
    return GAP.search(text) is not None


def shows_nothing(evidence: str) -> bool:
    """Whether there is nothing in an answer's evidence but places, or no value where it announces
    one."""
    text = evidence[:MAX_CHARACTERS]
    rest = LINE_OF.sub("", LOCATION.sub("", text))
    return NOTHING.fullmatch(rest) is not None or (has_gap(text) and not values_in(text))


def locations(text: str) -> list[tuple[str, int]]:
    """The places in a text, in order, except those on the way."""
    main: dict[tuple[str, int], None] = {}
    for file, line, start in places(text):
        if not CONTEXT.search(text[max(0, start - 80) : start].replace("`", "")):
            main[file, line] = None
    return list(main)


def committed(text: str, location: str) -> list[tuple[str, int]]:
    """The places that an answer commits itself to: the block's only location, if the text names it
    first and the others not as alternatives; else all places in the text."""
    found, located = locations(text), locations(location)
    if not found or len(located) != 1 or _lists_places(text):
        return found or located[:1]
    (first, line), (file, told) = found[0], located[0]
    return found[:1] if line == told and same_file(first, file) else found


def _lists_places(text: str) -> bool:
    spans = sorted(
        each.span() for pattern in (LOCATION, LINE_OF) for each in pattern.finditer(text)
    )
    return any(PLACES_APART.fullmatch(text, end, start) for (_, end), (start, _) in pairwise(spans))


def same_file(one: str, other: str) -> bool:
    """Whether two paths may name the same file; one may lack leading folders."""
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def exceptions(text: str, known: str) -> list[str]:
    """The exception classes that are raised according to a text, without modules; `known` is an
    expected class, whatever its suffix."""
    found = [
        *EXCEPTION.finditer(text),
        *re.finditer(rf"\b(?:\w+\.){{0,20}}{re.escape(known)}\b", text),
    ]
    names: dict[str, None] = {}
    for each in sorted(found, key=lambda each: each.start()):
        if not NOT_RAISED.search(text[max(0, each.start() - 40) : each.start()]):
            names[each[0].rpartition(".")[2]] = None
    return list(names)


def counts(text: str) -> list[int]:
    """The counts in a text, such as `3 times`."""
    found = []
    for each in COUNT.finditer(NOT_COUNTS.sub(" ", text.lower())):
        word = each["number"]
        if each[0] != word or word in ("once", "twice", "thrice"):
            found.append(WORDS.get(word, _number(word) if word.isdigit() else 0))
    return list(dict.fromkeys(found))


def ordinal(hit: int) -> str:
    """`third`; `11th`."""
    return ORDINALS[hit - 1] if hit <= len(ORDINALS) else f"{hit}th"


def visits(text: str) -> list[int]:
    """The visits of a line in a text: `the second time`, `hit 3`."""
    found = list(VISIT.finditer(text))
    words = {word: number for number, word in enumerate(ORDINALS, 1)}
    told = [
        words.get((e["word"] or "").lower()) or _number(e["number"] or e["after"]) for e in found
    ]
    return list(dict.fromkeys(told))


@dataclass(frozen=True)
class ValueClaim:
    """A value in a text."""

    value: object
    text: str
    start: int
    end: int


def values_in(text: str) -> list[ValueClaim]:
    """Every value in a text, except line numbers, ordinals and counts."""
    hidden = _without_places(text)
    claims: list[ValueClaim] = []
    position = 0
    while found := VALUE_START.search(hidden, position):
        start, position = found.start(), found.end()
        first, before = hidden[start], hidden[max(start - 1, 0) : start]
        if first == "'" and before.isalnum():
            continue  # An apostrophe.
        if first == "[" and (before.isalnum() or before in ("_", "]", ")")):
            position = _balanced(hidden, start) or position
            continue
        claim = _value_at(hidden, start)
        if claim is not None:
            claims.append(claim)
            position = claim.end
    return claims


def named_values(text: str, name: str) -> list[ValueClaim]:
    """The values that a text gives to a name: `name` = value, the value of `name` at ... is."""
    hidden = _without_places(text)
    spot = re.compile(rf"(?<![\w.\]'\"-]){re.escape(name)}(?![\w(\[]|\.\w)")
    tail = re.compile(rf"[`*]*(?:[^.;\n`=]|\.(?=\w)){{0,80}}?{IS}{FILLER}")
    claims: list[ValueClaim] = []
    for found in spot.finditer(hidden):
        if claims and found.start() < claims[-1].end:
            continue
        given = tail.match(hidden, found.end())
        while given is not None:
            claim = _value_at(hidden, given.end())
            if claim is not None:
                claims += [claim, *_alternatives(hidden, claim.end)]
                break
            given = tail.match(hidden, given.end())
    return claims


def _alternatives(text: str, position: int) -> list[ValueClaim]:
    """Further candidates after a value: `5, 6 or 7`."""
    found: list[ValueClaim] = []
    words: list[str] = []
    while joined := OR.match(text, position):
        claim = _value_at(text, joined.end())
        if claim is None:
            break
        found.append(claim)
        words.append(joined["word"])
        position = claim.end
    return found if any(word != "," for word in words) else []


@lru_cache(64)
def _without_places(text: str) -> str:
    """The text with non-values blanked out, including code that only names a place."""
    return WHERE.sub(blank, NOT_VALUES.sub(blank, text))


def _value_at(text: str, start: int) -> ValueClaim | None:
    """The longest representation of a value that starts at a position, unless it is a remark in
    brackets: `(the second visit)`."""
    found, end = STRING.match(text, start) or WORD.match(text, start), None
    if found is None and (OBJECT.match(text, start) or CALL.match(text, start)):
        end = _balanced(text, start)
    if end is None:
        found = found or NUMBER.match(text, start)
        end = found.end() if found else None
    if end is None:
        return None
    value, shown = parse_value(text[start:end]), text[start:end]
    is_remark = isinstance(value, Name) and shown[0] == "("
    if is_remark or (isinstance(value, Text) and shown[0] != "<"):
        return None
    return ValueClaim(value, shown, start, end)


def _balanced(text: str, start: int) -> int | None:
    """Where the brackets that start here are closed; strings inside are skipped."""
    stack: list[str] = []
    position = start
    while position < min(len(text), start + MAX_VALUE) and len(stack) <= MAX_DEPTH:
        char = text[position]
        quoted = STRING.match(text, position) if char in "'\"" else None
        position = quoted.end() if quoted else position + 1
        if char in CLOSING and (char != "<" or position == start + 1 or stack[-1:] == [">"]):
            stack.append(CLOSING[char])
        elif stack and char == stack[-1]:
            stack.pop()
            if not stack:
                return position
    return None


def without_values(text: str) -> str:
    """The text with every value blanked out."""
    for claim in values_in(text):
        text = text[: claim.start] + " " * (claim.end - claim.start) + text[claim.end :]
    return text


def blank(found: re.Match[str]) -> str:
    """The same number of spaces, so that positions stay valid."""
    return " " * len(found[0])


def is_given(text: str, name: str, value: str) -> bool:
    """Whether a text gives this value to a name, word by word: `row` is mon,A,100."""
    given = (
        rf"(?<![\w.]){re.escape(name)}[`*]*[^.;\n]{{0,80}}?{IS}{FILLER}[`*\"]*{re.escape(value)}"
    )
    return re.search(rf"{given}(?![\w,])", text) is not None


def bare_words(text: str, name: str) -> list[str]:
    """The unquoted text in backticks if a text gives a value to a name."""
    return re.findall(rf"{re.escape(name)}[`*]*[^.;\n`]{{0,80}}?{IS}\s*`([^`\n]*)`", text)


def other_names(text: str, claim: ValueClaim) -> str | None:
    """The name in code that a value is given to just before it, or None."""
    before = text[max(0, claim.start - MAX_VALUE) : claim.start]
    found = re.search(rf"(?:`([^`\n]+)`|\b([A-Za-z_][\w.\[\]'\"]*))[`*]*\s*{IS}{FILLER}$", before)
    if found is None:
        return None
    if found[1]:
        # In `total = a + b` evaluates to ..., the target has the value.
        return re.split(r"(?<![=!<>])=(?!=)", found[1])[0].rstrip()
    is_code = re.search(r"[_.\[]", found[2]) or before.removesuffix("`").rstrip().endswith("=")
    return found[2] if is_code else None


def distinct(claims: list[ValueClaim]) -> list[ValueClaim]:
    """Each value once."""
    kept: list[ValueClaim] = []
    for claim in claims:
        if not any(same(claim.value, other.value) for other in kept):
            kept.append(claim)
    return kept


def compared(text: str) -> tuple[list[ValueClaim], list[ValueClaim]]:
    """The actual and the expected values of a failing assertion, by the words around each."""
    for part in (ASSERT_CODE.sub(blank, text), text):
        found = values_in(part)
        by_role: dict[str | None, list[ValueClaim]] = {"actual": [], "expected": [], None: []}
        ends = [0, *(claim.end for claim in found)]
        starts = [*(claim.start for claim in found), len(part)]
        for number, claim in enumerate(found):
            before, after = part[ends[number] : claim.start], part[claim.end : starts[number + 1]]
            role = _role(before, after)
            if role is None and UNEQUAL.search(before) and number:
                role = "expected"
            by_role[role].append(claim)
        if found:
            break
    return by_role["actual"] or by_role[None], by_role["expected"]


def _role(before: str, after: str) -> str | None:
    """Whether a value is the actual or the expected one."""
    behind = AFTERWARDS.match(after)
    if behind is not None:
        return "actual" if behind["role"] == "actual" else "expected"
    roles = [found.lastgroup for found in ROLE.finditer(before)]
    return roles[-1] if roles else None
