"""Cuts a template into text, output marks and tags."""

from __future__ import annotations

import re
from dataclasses import dataclass

MARK = re.compile(r"\{(?P<open>[{%#])(?P<left>-?)(?P<body>.*?)(?P<right>-?)[}%#]\}", re.DOTALL)
KINDS = {"{": "output", "%": "tag", "#": "comment"}


@dataclass(frozen=True)
class Token:
    """A piece of a template and the line it starts on."""

    kind: str
    value: str
    line: int


def tokenize(source: str) -> list[Token]:
    """All tokens. A dash inside of a mark eats the white space on that side."""
    tokens = []
    position, line, eat_left = 0, 1, False
    for match in MARK.finditer(source):
        text = source[position : match.start()]
        kept = trim(text, eat_left, bool(match["left"]))
        if kept:
            tokens.append(Token("text", kept, line))
        line += text.count("\n")
        kind = KINDS[match["open"]]
        if kind != "comment":
            tokens.append(Token(kind, match["body"].strip(), line))
        line += match[0].count("\n")
        position, eat_left = match.end(), bool(match["right"])
    rest = trim(source[position:], eat_left, False)
    return tokens + ([Token("text", rest, line)] if rest else [])


def trim(text: str, left: bool, right: bool) -> str:
    """Text without the white space at the named ends."""
    if left:
        text = text.lstrip()
    return text.rstrip() if right else text
