"""A window on a text that is made piece by piece and may have no end."""

from __future__ import annotations

from typing import Any, Iterator, List, NamedTuple, Tuple

from .wire import CONTROL, Json

PART = 65536
"""Characters of a long text that are quoted at once."""


class Bounds(NamedTuple):
    """How much of a value is shown."""

    chars: int
    depth: int
    """Nesting of containers."""
    items: int
    """Items per container."""
    lines: int

    @staticmethod
    def of(limits: Json) -> Bounds:
        names = ("value_chars", "value_depth", "value_items", "value_lines")
        return Bounds(*(limits[name] for name in names))


class Full(Exception):
    """The window is full, and there is more text."""


class Window:
    """The part of a text from its `start`-th character on, within bounds.

    Text before it is made and dropped; text after it is not made at all.
    """

    def __init__(self, bounds: Bounds, start: int = 0) -> None:
        self.skip = start
        self.left = bounds.chars
        self.lines = bounds.lines
        self.parts: List[str] = []
        self.shown = 0
        self.rest = ""
        """A note of what is left, once the window is full."""

    def put(self, text: str, more: int = 0) -> None:
        """Add a piece; at least `more` characters will follow it. Raises Full."""
        if not text.isprintable():
            text = text.translate(CONTROL)
        if self.skip:
            skipped = min(self.skip, len(text))
            self.skip -= skipped
            text = text[skipped:]
        end = self._line_end(text)
        shown = text[: min(end, self.left)]
        self.parts.append(shown)
        self.shown += len(shown)
        self.left -= len(shown)
        self.lines -= shown.count("\n")
        if len(shown) < len(text):
            self._fill(text[len(shown) :], more, len(shown) == end)

    def _line_end(self, text: str) -> int:
        """Where the last line that may still be shown ends."""
        if text.count("\n") < self.lines:
            return len(text)
        end = -1
        for _ in range(self.lines):
            end = text.find("\n", end + 1)
        return end

    def _fill(self, rest: str, more: int, by_lines: bool) -> None:
        if by_lines:
            self.rest = counted(rest.rstrip("\n").count("\n"), "line")
            self.shown += 1  # the line end is not shown again
        else:
            self.rest = counted(len(rest) + more, "character")
        raise Full

    def text(self) -> str:
        """The window's text, with a note of how much follows it."""
        shown = "".join(self.parts)
        separator = "\n" if self.rest.endswith(("line", "lines")) else ""
        return f"{shown}{separator}{self.rest}"


def counted(number: int, what: str) -> str:
    """`... 1,200 more items`."""
    return f"... {number:,} more {what}" + ("s" if number != 1 else "")


def bounded_text(text: str, bounds: Bounds) -> str:
    """A complete text, cut to its bounds."""
    window = Window(bounds)
    try:
        window.put(text)
    except Full:
        return window.text()
    return window.text()


def quoted(value: Any, opening: str) -> Iterator[Tuple[str, int]]:
    """The parts of the `repr` of a long text or bytes, with the number of characters after each."""
    single: Any = "'" if type(value) is str else b"'"
    double: Any = '"' if type(value) is str else b'"'
    quote = '"' if single in value and double not in value else "'"
    # Put before a part, these make `repr` use the quotes of the whole.
    force = single if quote == '"' else double + single
    lead = len(repr(force)) - 1
    yield opening + quote, len(value)
    for start in range(0, len(value), PART):
        yield repr(force + value[start : start + PART])[lead:-1], max(len(value) - start - PART, 0)
    yield quote, 0
