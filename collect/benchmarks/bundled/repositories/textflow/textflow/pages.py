"""Breaking blocks of lines into pages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Iterable, List


@dataclass(frozen=True)
class Block:
    """Lines that belong together, and the blank lines wanted after them."""

    lines: List[str]
    space_after: int = 0
    keep_with_next: bool = False

    @property
    def height(self) -> int:
        return len(self.lines) + self.space_after


@dataclass
class Page:
    """One page, `number` from 1."""

    number: int
    blocks: List[Block] = field(default_factory=list)

    def lines(self) -> List[str]:
        """The text lines, without the blank lines at the end."""
        lines: List[str] = []
        for block in self.blocks:
            lines.extend(block.lines)
            lines.extend([""] * block.space_after)
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def render(self, height: int, footer: str) -> str:
        """`height` lines and, below them, the footer."""
        lines = self.lines()
        if len(lines) > height:
            raise ValueError("page %d has %d lines of %d" % (self.number, len(lines), height))
        return "\n".join(lines + [""] * (height - len(lines)) + [footer])


class Paginator:
    """Fills pages of `height` lines block by block."""

    def __init__(self, height: int) -> None:
        self.height = height
        self.pages = [Page(1)]
        self._used = 0

    def add_all(self, blocks: Iterable[Block]) -> List[Page]:
        for block in blocks:
            self.add(block)
        return self.pages

    def add(self, block: Block) -> None:
        """Put the block on the current page, or on a new one if it doesn't fit."""
        for part in self._parts(block):
            if self._used + len(part.lines) > self.height:
                self._break()
            self.pages[-1].blocks.append(part)
            self._used += part.height

    def _parts(self, block: Block) -> List[Block]:
        if len(block.lines) <= self.height:
            return [block]
        rest = Block(block.lines[self.height :], block.space_after, block.keep_with_next)
        return [Block(block.lines[: self.height])] + self._parts(rest)

    def _break(self) -> None:
        """Begin a page, and take along the blocks that must stay with what comes next."""
        full = self.pages[-1]
        kept: List[Block] = []
        while len(full.blocks) > 1 and full.blocks[-1].keep_with_next:
            kept.insert(0, full.blocks.pop())
        self.pages.append(Page(full.number + 1, kept))
        self._used = sum(block.height for block in kept)
