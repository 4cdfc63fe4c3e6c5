"""A funnel: the numbers that each step dropped and left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from pydantic import BaseModel, ConfigDict
from rich.table import Table

Step = TypeVar("Step", bound=StrEnum)


class FunnelStep(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

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
    """One line per step."""
    table = Table("step", "dropped", "left", title=title)
    for step in steps:
        table.add_row(step.name, str(step.dropped), str(step.remaining))
    return table
