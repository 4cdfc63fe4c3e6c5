"""From text to tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, List

KEYWORDS = {"and", "or", "not", "in", "like", "has", "between", "true", "false", "null"}

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>-?\d+(?:\.\d+)?)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<word>[A-Za-z_][\w.]*)
      | (?P<symbol><=|>=|!=|[=<>(),])
    )""",
    re.VERBOSE,
)
_CONSTANTS = {"true": True, "false": False, "null": None}


class QueryError(ValueError):
    """A query that can't be understood."""


@dataclass(frozen=True)
class Token:
    """`kind` is value, field, end, or the keyword or symbol itself."""

    kind: str
    value: Any
    position: int


def tokenize(text: str) -> List[Token]:
    tokens = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not match:
            raise QueryError("unexpected %r at %d" % (text[position:].strip()[0], position))
        tokens.append(_token(match))
        position = match.end()
    return tokens + [Token("end", None, len(text))]


def _token(match) -> Token:
    kind, text = match.lastgroup, match.group(match.lastgroup)
    start = match.start(kind)
    if kind == "number":
        return Token("value", float(text) if "." in text else int(text), start)
    if kind == "string":
        return Token("value", re.sub(r"\\(.)", r"\1", text[1:-1]), start)
    word = text.lower()
    if word in _CONSTANTS:
        return Token("value", _CONSTANTS[word], start)
    if kind == "symbol" or word in KEYWORDS:
        return Token(word, text, start)
    return Token("field", text, start)
