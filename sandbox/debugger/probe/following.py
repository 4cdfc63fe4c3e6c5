"""Find the line of a breakpoint again in a file that has been edited."""

from __future__ import annotations

from typing import List, Tuple

REACH = 3
"""Lines above and below that tell a line from others with the same text."""
OWN_WEIGHT = 4


def surroundings(lines: List[str], line: int) -> List[str]:
    """The texts of a line, in the middle, and of those around it; empty beyond the file."""
    numbers = range(line - REACH, line + REACH + 1)
    return [lines[n - 1].strip() if 0 < n <= len(lines) else "" for n in numbers]


def follow(lines: List[str], line: int, known: List[str]) -> Tuple[int, bool]:
    """The current number of a line with known surroundings, and whether its own text is still
    there."""

    def likeness(number: int) -> int:
        weights = [1] * REACH + [OWN_WEIGHT] + [1] * REACH
        now = surroundings(lines, number)
        return sum(w for w, old, new in zip(weights, known, now) if old and old == new)  # noqa: B905

    text = known[REACH]
    if surroundings(lines, line) == known:
        return line, True
    best = max(range(1, len(lines) + 1), key=lambda n: (likeness(n), -abs(n - line)), default=line)
    if not lines or not likeness(best):
        best = line
    return best, bool(text) and surroundings(lines, best)[REACH] == text
