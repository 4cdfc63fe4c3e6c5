"""Tables: several narrow texts side by side."""

from __future__ import annotations

from itertools import zip_longest
from typing import List, Sequence

from .align import set_line
from .wrap import wrap

GAP = " | "


def column_widths(shares: Sequence[int], width: int) -> List[int]:
    """Divide `width` cells, less the gaps, in proportion to `shares`."""
    free = width - len(GAP) * (len(shares) - 1)
    total = sum(shares)
    widths = []
    done = placed = 0
    for share in shares:
        done += share
        edge = free * done // total
        widths.append(edge - placed)
        placed = edge
    return widths


def set_row(cells: Sequence[str], widths: Sequence[int], aligns: Sequence[str]) -> List[str]:
    """The lines of one table row, cells wrapped each in its own column."""
    columns = []
    for text, width, align in zip(cells, widths, aligns):
        columns.append([set_line(line, align) for line in wrap(text, width, width)])
    blanks = [" " * width for width in widths]
    rows = []
    for parts in zip_longest(*columns):
        rows.append(GAP.join(part or blank for part, blank in zip(parts, blanks)))
    return rows
