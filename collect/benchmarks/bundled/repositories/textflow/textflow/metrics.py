"""How many terminal cells a text takes."""

from __future__ import annotations

import unicodedata


def char_width(char: str) -> int:
    """Cells of one character: 0 for combining marks, 2 for wide characters, else 1."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def text_width(text: str) -> int:
    """Cells of a whole text."""
    return sum(char_width(char) for char in text)


def fitting_prefix(text: str, cells: int) -> int:
    """The number of leading characters that fit into `cells`."""
    used = 0
    for position, char in enumerate(text):
        used += char_width(char)
        if used > cells:
            return position
    return len(text)
