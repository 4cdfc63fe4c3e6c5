"""Markdown that is also readable unrendered."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(rows: Sequence[Sequence[str]]) -> str:
    """A table with aligned columns; the first row is the header."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(3, *(len(cell) for cell in column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def notes(lines: Iterable[str]) -> str:
    """One bullet per line."""
    return "\n".join(f"- {line}" for line in lines)
