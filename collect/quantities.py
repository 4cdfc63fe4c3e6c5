"""Formats quantities for people: 347k tokens, $0.04, 3m, a, b and 12 more, and a funnel's steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from rich.table import Table

from collect.store.files import StrictRecord

Step = TypeVar("Step", bound=StrEnum)


def tokens(count: float) -> str:
    """Tokens with about three significant digits: 640, 15.2k, 347k, 1.55M."""
    if count < 999.5:
        return f"{count:.0f}"
    if count < 99_950:
        return f"{count / 1e3:.1f}k"
    if count < 999_500:
        return f"{count / 1e3:.0f}k"
    return f"{count / 1e6:.2f}M"


def counted(count: int, what: str) -> str:
    """1 row, 24 rows, 1,200 rows: `what` is the singular of a word with plural -s."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def dollars(amount: float) -> str:
    """Dollars; fractions of a cent below one dollar."""
    return f"${amount:.2f}" if amount >= 1 or amount == 0 else f"${amount:.4f}"


def duration(seconds: float) -> str:
    """A duration in its two largest units: 8s, 3m, 1h05m, 2d03h."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes}m"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h{minutes:02d}m"
    return f"{hours // 24}d{hours % 24:02d}h"


def first_of(names: Sequence[str], shown: int = 5) -> str:
    """The first names, and how many more there are: a, b and 12 more."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


class FunnelStep(StrictRecord):
    """The numbers that a step dropped and left."""

    name: str
    dropped: int
    remaining: int


def funnel(
    steps: Iterable[Step], dropped: Mapping[Step, int], remaining: int
) -> tuple[FunnelStep, ...]:
    """The steps in order; `remaining` is the number before the first step."""
    found = []
    for step in steps:
        remaining -= dropped.get(step, 0)
        found.append(FunnelStep(name=step, dropped=dropped.get(step, 0), remaining=remaining))
    return tuple(found)


def funnel_table(steps: Iterable[FunnelStep], title: str | None = None) -> Table:
    """One line per step that dropped something, and what is left at the end."""
    table, left = Table("step", "dropped", "left", title=title), 0
    for step in steps:
        left = step.remaining
        if step.dropped:
            table.add_row(step.name, f"{step.dropped:,}", f"{left:,}")
    table.add_row("kept", "", f"{left:,}")
    return table
