"""The `<debug_answer>` block that a Debug Subagent ends with (Debug2Fix, figure 3)."""

from __future__ import annotations

import re

from collect.records import DebugAnswer

BLOCK = re.compile(r"<debug_answer>(.*?)</debug_answer>", re.DOTALL | re.IGNORECASE)
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
    for block in reversed(BLOCK.findall(text)):
        fields = _fields(block)
        if fields.keys() == FIELDS and fields["answer"]:
            return DebugAnswer(**fields)
    return None


def _fields(block: str) -> dict[str, str]:
    starts: dict[str, re.Match[str]] = {}
    for label in LABEL.finditer(block):
        starts.setdefault(label[1].lower(), label)
    ends = [*(label.start() for label in starts.values()), len(block)][1:]
    return {
        name: block[label.end() : end].strip()
        for (name, label), end in zip(starts.items(), ends, strict=True)
    }
