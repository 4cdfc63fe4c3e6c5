"""The values that an answer's text states, and the expressions that it gives them to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace

from collect.grounding.records import Claim, ClaimKind
from collect.questions.claims import EXCEPTION
from collect.questions.compared import ROLE, compared
from collect.questions.comparing import Call, Name, Text, parse_value
from collect.questions.readable import GUESSED
from collect.questions.value_claims import (
    WHERE,
    ValueClaim,
    blank,
    named_values,
    other_names,
    values_in,
)

CUT = re.compile(r"\([\w.$<>\[\], ]*\bcut\)|;\s+(?=[A-Za-z_][\w.]* = )")
"""Where a new value begins, whatever quotes and brackets stay open in one that was cut: after the
debugger's remark on that, or at `; name = `."""
ENDS = re.compile(r"[;`\n]")
"""What no expression goes across."""
MAX_EXPRESSION = 200
"""Characters."""
BLANK = re.compile(r"\s")
"""After one, behind other words, an expression may begin."""
QUOTED_NAME = re.compile(r"`([A-Za-z_][\w.\[\]'\"]*)`")


def value_claims(text: str) -> Iterator[Claim]:
    """Every value that is given to an expression, and every literal that is quoted."""
    for part in CUT.split(text):
        named = {each.start: (each, _name(part, each)) for each in _whole(part, values_in(part))}
        for name in dict.fromkeys(QUOTED_NAME.findall(part)):
            for each in _whole(part, named_values(part, name)):
                if named.get(each.start, (each, None))[1] is None:
                    named[each.start] = each, name
        yield from (_claim(part, *each) for each in named.values() if _is_claim(*each))
        yield from _sides(part, {start for start, (_, name) in named.items() if name})


def _sides(text: str, named: set[int]) -> Iterator[Claim]:
    """The actual and the expected value of an assertion."""
    if not ROLE.search(text):
        return
    sides = compared(text)
    for each in _whole(text, [*sides.actual, *sides.expected]):
        if _is_data(each) and each.start not in named:
            yield _claim(text, each, None)


def _whole(text: str, found: list[ValueClaim]) -> list[ValueClaim]:
    """The values with what the reader blanks out of a text, which inside of one is part of it."""
    whole: list[ValueClaim] = []
    for each in found:
        own = text[each.start : each.end]
        value = each.value if own == each.text else parse_value(own)
        if own == each.text or own.startswith("<") or not isinstance(value, Text):
            whole.append(replace(each, text=own, value=value))
    return whole


def _name(text: str, found: ValueClaim) -> str | None:
    """The expression that a value is given to; as the debugger writes it, `len(x) > 2 = True`, it
    may be more than a name."""
    before = text[: found.start]
    if before.endswith(" = "):
        part = ENDS.split(before[-MAX_EXPRESSION:-3])[-1]
        for start in (0, *(each.end() for each in BLANK.finditer(part))):
            expression = part[start:].strip()
            if _parses(expression):
                return expression
    return other_names(WHERE.sub(blank, text), found)


def _parses(expression: str) -> bool:
    """Whether it is one expression: a list of them goes over from what is said before."""
    try:
        body = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return False
    return not isinstance(body, ast.Tuple)


def _claim(text: str, found: ValueClaim, name: str | None) -> Claim:
    start = text.rfind(name, 0, found.start) if name else found.start
    quote = text[start : found.end].replace("`", "") if 0 <= start < found.start else ""
    return Claim(ClaimKind.VALUE, found.text, name=name or "", value=found.value, quote=quote)


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
