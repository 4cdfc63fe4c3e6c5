"""The `<debug_answer>` block that a Debug Subagent ends with (Debug2Fix, figure 3)."""

from __future__ import annotations

import re

from collect.records import DebugAnswer

OPEN = re.compile("<debug_answer>", re.IGNORECASE)
CLOSE = re.compile("</debug_answer>", re.IGNORECASE)
FIELDS = {"question", "answer", "evidence", "location"}
LABEL = re.compile(
    r"^[ \t]*(?:[-*][ \t]+)?\*{0,2}(question|answer|evidence|location)\*{0,2}[ \t]*:\*{0,2}[ \t]*",
    re.MULTILINE | re.IGNORECASE,
)


def parse_answer(text: str) -> DebugAnswer | None:
    """The last well-formed block of a text: all four fields, and an answer that says something.

    None where there is none. A field's text runs to the next field that has not come yet, so
    that the evidence may itself hold lines such as `answer: 42`.
    """
    for block in reversed(_blocks(text)):
        fields = _fields(block)
        if fields.keys() == FIELDS and fields["answer"]:
            return DebugAnswer(**fields)
    return None


def _blocks(text: str) -> list[str]:
    # Cut, not matched by one pattern: that takes forever where a model repeats the opening tag.
    *closed, _ = CLOSE.split(text)
    opened = [(piece, OPEN.search(piece)) for piece in closed]
    return [piece[tag.end() :] for piece, tag in opened if tag is not None]


def _fields(block: str) -> dict[str, str]:
    starts: dict[str, re.Match[str]] = {}
    for label in LABEL.finditer(block):
        starts.setdefault(label[1].lower(), label)
    ends = [*(label.start() for label in starts.values()), len(block)][1:]
    return {
        name: block[label.end() : end].strip()
        for (name, label), end in zip(starts.items(), ends, strict=True)
    }
