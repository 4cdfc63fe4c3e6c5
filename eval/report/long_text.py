"""Long texts: what is folded away, and what is too much for a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

FENCE = "```"
FOLD_CHARACTERS, FOLD_LINES = 3_000, 40
"""A text with more of either is folded."""
MOST_CHARACTERS = 200_000
"""Of one text in a page; the Parquet files have the whole."""
PREVIEW_CHARACTERS, PREVIEW_LINES = 600, 8


@dataclass(frozen=True)
class Folded:
    """A text as a page shows it."""

    text: str
    """As much of it as the page has."""
    preview: str
    """Its beginning, seen while it is folded; empty where all is short enough to be shown."""
    lines: int
    characters: int
    """Of the whole text."""

    @property
    def left_out(self) -> int:
        """Characters that the page does not have."""
        return self.characters - len(self.text)


@dataclass(frozen=True)
class Segment:
    """A part of a text that is prose, or code."""

    text: str
    is_code: bool


def segments(text: str) -> Iterator[Segment]:
    """The text cut at its fenced code, as models write it; nothing of it is left out."""
    held: list[str] = []
    in_code = False
    for line in text.split("\n"):
        opens = not in_code and line.startswith(FENCE)
        if opens:
            yield from _segment(held, is_code=False)
            held, in_code = [], True
        held.append(line)
        if in_code and not opens and line.rstrip() == FENCE:
            yield from _segment(held, is_code=True)
            held, in_code = [], False
    yield from _segment(held, is_code=in_code)


def _segment(lines: list[str], *, is_code: bool) -> Iterator[Segment]:
    text = "\n".join(lines)
    if text.strip():
        yield Segment(text.strip("\n"), is_code)


def folded(text: str, lines: int = FOLD_LINES, characters: int = FOLD_CHARACTERS) -> Folded:
    """The text, with a preview where it has more lines or characters than these."""
    count = text.count("\n") + 1
    is_long = count > lines or len(text) > characters
    preview = "\n".join(text[:PREVIEW_CHARACTERS].split("\n")[:PREVIEW_LINES]) if is_long else ""
    return Folded(text[:MOST_CHARACTERS], preview, count, len(text))
