"""Greedy line breaking."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterator, List

from .metrics import fitting_prefix, text_width


@dataclass(frozen=True)
class Word:
    """A piece of text that is set without a gap."""

    text: str
    width: int

    @classmethod
    def of(cls, text: str) -> Word:
        return cls(text, text_width(text))

    def split(self, cells: int) -> tuple[Word, Word]:
        """Break the word after `cells` cells, with a hyphen at the end of the first part."""
        cut = max(1, fitting_prefix(self.text, cells - 1))
        head = self.text[:cut] + "-"
        tail = self.text[cut:]
        return Word(head, text_width(head)), Word(tail, text_width(tail))


@dataclass
class Line:
    """Words that share a line of `room` cells, and the cells they take with single gaps."""

    room: int
    words: List[Word] = field(default_factory=list)
    width: int = 0
    last: bool = False

    def fits(self, word: Word) -> bool:
        gap = 1 if self.words else 0
        return self.width + gap + word.width <= self.room

    def add(self, word: Word) -> None:
        self.width += word.width + (1 if self.words else 0)
        self.words.append(word)


def wrap(text: str, room: int, first_room: int) -> Iterator[Line]:
    """Break `text` into lines of `room` cells; the first one has `first_room`."""
    line = Line(first_room)
    for piece in text.split():
        word = Word.of(piece)
        while not line.fits(word):
            if line.words:
                yield line
                line = Line(room)
            else:
                head, word = word.split(line.room)
                line.add(head)
        line.add(word)
    line.last = True
    yield line
