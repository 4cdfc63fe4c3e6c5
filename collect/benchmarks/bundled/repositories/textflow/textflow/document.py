"""Documents: text with styles in, pages out."""

from __future__ import annotations

from typing import List, Sequence

from .align import set_line
from .columns import column_widths, set_row
from .pages import Block, Page, Paginator
from .style import Style
from .wrap import wrap


class Document:
    """A document of `width` cells a line and `height` lines a page."""

    def __init__(self, width: int, height: int, body: Style | None = None) -> None:
        self.width = width
        self.height = height
        self.body = body or Style()
        self.heading_style = self.body.derive(keep_with_next=True, indent=0, first_indent=0)
        self._blocks: List[tuple] = []

    def heading(self, text: str) -> None:
        self._blocks.append(("text", text.upper(), self.heading_style))

    def paragraph(self, text: str, style: Style | None = None) -> None:
        self._blocks.append(("text", text, style or self.body))

    def quote(self, text: str, depth: int = 1) -> None:
        """A paragraph that is indented by four cells for each level of `depth`."""
        indent = self.body["indent"] + 4 * depth
        self.paragraph(text, self.body.derive(indent=indent, first_indent=0))

    def table(self, rows: Sequence[Sequence[str]], shares: Sequence[int], aligns=None) -> None:
        aligns = aligns or ["left"] * len(shares)
        self._blocks.append(("table", (rows, shares, aligns), self.body))

    def pages(self) -> List[Page]:
        return Paginator(self.height).add_all(self._set(*entry) for entry in self._blocks)

    def render(self) -> List[str]:
        """The pages as texts, with "page x of y" below each."""
        pages = self.pages()
        footers = ["page %d of %d" % (page.number, len(pages)) for page in pages]
        return [page.render(self.height, footer) for page, footer in zip(pages, footers)]

    def _set(self, kind: str, content, style: Style) -> Block:
        lines = self._set_text(content, style) if kind == "text" else self._set_table(*content)
        return Block(lines, style["space_after"], style["keep_with_next"])

    def _set_text(self, text: str, style: Style) -> List[str]:
        margin = " " * style["indent"]
        first = " " * style["first_indent"]
        room = self.width - len(margin)
        lines = []
        for number, line in enumerate(wrap(text, room, room - len(first))):
            lead = margin + first if number == 0 else margin
            lines.append((lead + set_line(line, style["align"])).rstrip())
        return lines

    def _set_table(self, rows, shares, aligns) -> List[str]:
        widths = column_widths(shares, self.width)
        return [line for row in rows for line in set_row(row, widths, aligns)]
