"""The claims that stand in an answer's text, read as the scorer of runtime questions reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from collect.grounding.records import Claim, ClaimKind
from collect.grounding.values import value_claims
from collect.questions.claims import EXCEPTION, LOCATION, places

NAME = r"(?:[A-Za-z_]\w*(?:\.(?:[A-Za-z_]\w*|<\w+>))*|<\w+>)"
FUNCTION_AFTER = re.compile(
    rf"{LOCATION.pattern}[`*)]*,?\s+(?:in|inside|within)\s+(?:the\s+)?`?(?P<function>{NAME})"
)
FUNCTION_BEFORE = re.compile(
    rf"\b(?:in|by|inside|within|function|method)\s+`?(?P<function>{NAME})(?:\(\))?`?,?\s+"
    rf"(?:at\s+|\()`?(?={LOCATION.pattern})"
)
NO_FUNCTIONS = frozenset({"the", "a", "an", "this", "that", "it", "line", "code", "test", "module"})
QUOTED = re.compile(r":?\s*\(?\s*(?P<quote>['\"])(?P<message>(?:\\.|(?!(?P=quote)).)+)(?P=quote)")
"""A message in quotes behind an exception's type: `KeyError('b')`, `KeyError: 'b'`."""
TOLD = re.compile(r":\s*(?P<message>[^;\n`]+)")
"""A message as a traceback has it, to the end of the line or of what is quoted there."""
BEFORE_TOLD = re.compile(r"(?:^|[`;\n]|: )\s*$")
"""What comes before an exception's type where a traceback's line is quoted; in a sentence, what
follows a colon is prose."""
REMARK = re.compile(r"(?<=\s)\((?P<quote>['\"])(?P<message>[^'\"\n]+)(?P=quote)\)")
"""A message that stands in brackets and quotes, not right behind the type."""
PROSE = re.compile(r"\.\s+(?=[A-Z])|\.$")
"""Where the sentence that holds a message ends."""


def claims_in(text: str) -> tuple[Claim, ...]:
    """The locations, exceptions and values that a text states, each once."""
    found = [*_locations(text), *_exceptions(text), *value_claims(text)]
    return tuple({(claim.kind, str(claim)): claim for claim in found}.values())


def _locations(text: str) -> Iterator[Claim]:
    for file, line, _ in places(text):
        yield Claim(ClaimKind.LOCATION, f"{file}:{line}", file=file, line=line)
    for pattern in (FUNCTION_AFTER, FUNCTION_BEFORE):
        for found in pattern.finditer(text):
            if found["function"].lower() not in NO_FUNCTIONS:
                yield Claim(ClaimKind.LOCATION, found["function"])


def _exceptions(text: str) -> Iterator[Claim]:
    raised = list(EXCEPTION.finditer(text))
    messages = [found["message"] for found in REMARK.finditer(text)] if raised else []
    for found in raised:
        yield Claim(ClaimKind.EXCEPTION, found[0].rpartition(".")[2])
        messages.append(_message(text, found))
    yield from (Claim(ClaimKind.EXCEPTION, each.strip()) for each in messages if each.strip())


def _message(text: str, raised: re.Match[str]) -> str:
    quoted = QUOTED.match(text, raised.end())
    if quoted:
        return quoted["message"]
    told = TOLD.match(text, raised.end())
    if told and BEFORE_TOLD.search(text[: raised.start()]):
        return PROSE.split(told["message"], maxsplit=1)[0]
    return ""
