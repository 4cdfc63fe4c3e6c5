"""The claims that stand in an answer's text, read as the scorer of runtime questions reads them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from collect.questions.claims import EXCEPTION, LOCATION, places
from collect.questions.compared import ROLE, compared
from collect.questions.comparing import Call, Name, Text, parse_value
from collect.questions.readable import GUESSED
from collect.questions.value_claims import ValueClaim, other_names, values_in
from format.grounding.records import Claim, ClaimKind

NAME = r"(?:[A-Za-z_]\w*(?:\.(?:[A-Za-z_]\w*|<\w+>))*|<\w+>)"
FUNCTION_AFTER = re.compile(
    rf"{LOCATION.pattern}[`*)]*,?\s+(?:in|inside|within)\s+(?:the\s+)?`?(?P<function>{NAME})"
)
FUNCTION_BEFORE = re.compile(
    rf"\b(?:in|by|inside|within|function|method)\s+`?(?P<function>{NAME})(?:\(\))?`?,?\s+"
    rf"(?:at\s+|\()`?(?={LOCATION.pattern})"
)
CUT = re.compile(r"\([\w.$<>\[\], ]*\bcut\)")
"""The debugger's remark on a value that it has cut, in which quotes and brackets stay open."""
ENDS = re.compile(r"[;`\n]")
"""What no expression goes across."""
WORDS_BEFORE = re.compile(r"\s")
"""Where an expression may begin, after other words."""
NO_FUNCTIONS = frozenset({"the", "a", "an", "this", "that", "it", "line", "code", "test", "module"})
MESSAGE = re.compile(
    r"(?::\s*(?P<after>[^;\n`]+)|\s*\(\s*(?P<quote>['\"])(?P<quoted>(?:\\.|(?!(?P=quote)).)*)"
    r"(?P=quote)[^)\n]*\))"
)
"""What follows an exception's type: `: message`, or the message in brackets and quotes."""
REMARK = re.compile(r"(?<=\s)\((?P<quote>['\"])(?P<message>[^'\"\n]+)(?P=quote)\)")
"""A message that stands in brackets and quotes, not right behind the type."""
PROSE = re.compile(r"\.\s+(?=[A-Z])|\.$")
"""Where the sentence that holds a message ends."""


def claims_in(text: str) -> tuple[Claim, ...]:
    """The locations, exceptions and values that a text states, each once."""
    parts = CUT.split(text)
    found = [*_locations(text), *_exceptions(text), *(c for part in parts for c in _values(part))]
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
    for said in REMARK.finditer(text) if raised else ():
        yield Claim(ClaimKind.EXCEPTION, said["message"])
    for found in raised:
        yield Claim(ClaimKind.EXCEPTION, found[0].rpartition(".")[2])
        said = MESSAGE.match(text, found.end())
        message = _message(said) if said else ""
        if message:
            yield Claim(ClaimKind.EXCEPTION, message)


def _message(said: re.Match[str]) -> str:
    if said["quoted"] is not None:
        return said["quoted"].strip()
    return PROSE.split(said["after"], maxsplit=1)[0].strip()


def _values(text: str) -> Iterator[Claim]:
    told = {found.start: (found, _name(text, found)) for found in values_in(text)}
    yield from (_claim(text, *each) for each in told.values() if _is_claim(*each))
    if ROLE.search(text):
        sides = compared(text)
        for found in (*sides.actual, *sides.expected):
            if _is_data(found) and told.get(found.start, (found, None))[1] is None:
                yield _claim(text, found, None)


def _name(text: str, found: ValueClaim) -> str | None:
    """The expression that a value is given to; as the debugger writes it, `len(x) > 2 = True`, it
    may be more than a name."""
    before = text[: found.start]
    if before.endswith(" = "):
        part = ENDS.split(before[:-3])[-1]
        for start in (0, *(each.end() for each in WORDS_BEFORE.finditer(part))):
            expression = part[start:].strip()
            if _parses(expression):
                return expression
    return other_names(text, found)


def _parses(expression: str) -> bool:
    """Whether it is one expression: a list of them goes over from what is said before."""
    try:
        body = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return not isinstance(body, ast.Tuple)


def _claim(text: str, found: ValueClaim, name: str | None) -> Claim:
    # The reader blanks out what is no value; inside of one it is part of it.
    own = text[found.start : found.end]
    value = found.value if own == found.text else parse_value(own)
    start = text.rfind(name, 0, found.start) if name else found.start
    quote = text[start : found.end].replace("`", "") if 0 <= start < found.start else ""
    return Claim(ClaimKind.VALUE, own, name=name or "", value=value, quote=quote)


def _is_claim(found: ValueClaim, name: str | None) -> bool:
    """Whether a value is stated: given to a name, or quoted and more than a number or a word."""
    if not _is_data(found):
        return False
    if name is not None:
        return True
    if isinstance(found.value, int | float | complex | None) or found.text in GUESSED:
        return False
    return not isinstance(found.value, Call) or found.value.name[:1].isupper()


def _is_data(found: ValueClaim) -> bool:
    """Whether it is a value's representation rather than code, which works on names."""
    raised = isinstance(found.value, Call) and EXCEPTION.fullmatch(found.value.name)
    remark = isinstance(found.value, str) and found.text.startswith("(")
    return not raised and not remark and not _has_names(found.value)


def _has_names(value: object) -> bool:
    match value:
        case Name():
            return True
        case Text() | str() | bytes():
            return False
        case list() | tuple():
            return any(map(_has_names, value))
        case dict():
            return any(map(_has_names, (*value.keys(), *value.values())))
        case Call():
            return any(map(_has_names, (*value.arguments, *(each for _, each in value.keywords))))
    return False
