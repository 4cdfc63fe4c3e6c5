"""Reads the claims in an answer's text: places, exceptions, counts, and admissions of not knowing.

It reads only the text itself, by patterns; nothing is inferred from the question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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
LOCATION = re.compile(
    r"(?P<file>[\w./-]*\w\.(?:py|java))(?::|,?\s+(?:at\s+)?(?:line|l\.)\s+|\s*\(line\s+)(?P<line>\d+)"
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
    r"\b(?:[a-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception|Warning|Exit|Interrupt|Iteration|Failure|Fault)\b"
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
    r"[\w./-]+\.(?:py|java):\d+|\blines?\s+\d+|at once|once (?:the|it|that|this|again)|"
    r"\d+(?:st|nd|rd|th)"
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


def is_evasive(text: str) -> bool:
    """Whether a text says that it does not know."""
    return not text.strip() or EVASIVE.search(text) is not None


def is_hedged(text: str) -> bool:
    """Whether a text only guesses."""
    return HEDGED.search(text) is not None


def places(text: str) -> list[tuple[str, int, int]]:
    """Every place in a text, in order: file, line, and position in the text."""
    found = [*LOCATION.finditer(text), *LINE_OF.finditer(text)]
    found.sort(key=lambda each: each.start())
    return [(each["file"].removeprefix("./"), int(each["line"]), each.start()) for each in found]


def locations(text: str) -> list[tuple[str, int]]:
    """The places in a text, in order, except those on the way."""
    main = [
        (file, line)
        for file, line, start in places(text)
        if not CONTEXT.search(text[max(0, start - 80) : start].replace("`", ""))
    ]
    return list(dict.fromkeys(main))


def same_file(one: str, other: str) -> bool:
    """Whether two paths may name the same file; one may lack leading folders."""
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def exceptions(text: str, known: str) -> list[str]:
    """The exception classes that are raised according to a text, without modules.

    `known` is an expected class, whatever its suffix.
    """
    found = [*EXCEPTION.finditer(text), *re.finditer(rf"\b(?:\w+\.)*{re.escape(known)}\b", text)]
    names = [
        each[0].rpartition(".")[2]
        for each in sorted(found, key=lambda each: each.start())
        if not NOT_RAISED.search(text[max(0, each.start() - 40) : each.start()])
    ]
    return list(dict.fromkeys(names))


def counts(text: str) -> list[int]:
    """The counts in a text, such as `3 times`."""
    found = []
    for each in COUNT.finditer(NOT_COUNTS.sub(" ", text.lower())):
        word = each["number"]
        has_unit = each[0] != word or word in ("once", "twice", "thrice")
        if has_unit:
            found.append(WORDS.get(word, int(word) if word.isdigit() else 0))
    return list(dict.fromkeys(found))


def visits(text: str) -> list[int]:
    """The visits of a line in a text: `the second time`, `hit 3`."""
    found: dict[int, None] = {}
    for each in VISIT.finditer(text):
        if each["word"]:
            found[ORDINALS.index(each["word"].lower()) + 1] = None
        else:
            found[int(each["number"] or each["after"])] = None
    return list(found)


def sentences(text: str) -> Iterator[str]:
    """The sentences and clauses of a text."""
    yield from (part for part in re.split(r"(?<=[.!?;])\s+|\n+", text) if part.strip())
