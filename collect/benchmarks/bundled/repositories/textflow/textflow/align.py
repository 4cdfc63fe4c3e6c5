"""Setting the words of a line at their place."""

from __future__ import annotations

from .wrap import Line


def set_line(line: Line, align: str) -> str:
    """The line as text of exactly `line.room` cells."""
    if align == "justify" and not line.last and len(line.words) > 1:
        return _justified(line)
    text = " ".join(word.text for word in line.words)
    free = line.room - line.width
    if align == "right":
        return " " * free + text
    if align == "center":
        before = free // 2
        return " " * before + text + " " * (free - before)
    return text + " " * free


def _justified(line: Line) -> str:
    gaps = len(line.words) - 1
    free = line.room - line.width
    wider = free % gaps
    parts = [line.words[0].text]
    for number, word in enumerate(line.words[1:]):
        parts.append(" " * (1 + free // gaps + (1 if number < wider else 0)))
        parts.append(word.text)
    return "".join(parts)
