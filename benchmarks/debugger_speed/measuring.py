"""Timing in turns, and the table."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from sandbox.debugger import DebugEvent, StopReason
from sandbox.errors import DebuggerError


@dataclass(frozen=True)
class Row:
    """One measured thing."""

    section: str
    what: str
    measured: float
    unit: str
    bare: float | None = None
    """The bare thing, in the same unit."""
    target: float | None = None
    """At most this: of the ratio where there is a bare thing, else of what was measured."""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        return self.measured / self.bare if self.bare else None

    @property
    def met(self) -> bool | None:
        """Whether the target holds; None where there is none."""
        if self.target is None:
            return None
        return (self.measured if self.ratio is None else self.ratio) <= self.target


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def medians(
    works: Mapping[str, Callable[[], float]], rounds: int, warm_up: int = 0
) -> dict[str, float]:
    """The median of what each work returns, the works taking turns."""
    found: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(warm_up + rounds):
        for name, work in works.items():
            value = work()
            if turn >= warm_up:
                found[name].append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def stopped_at(event: DebugEvent, file: str, line: int) -> DebugEvent:
    """The event. Raises DebuggerError where it is no stop at that line."""
    if (event.file, event.line) != (file, line) or event.stop_reason is StopReason.INTERRUPTED:
        raise DebuggerError(f"the debugger did not stop at {file}:{line}: {event}")
    return event


def print_table(rows: Iterable[Row]) -> None:
    """A table in Markdown."""
    cells = [
        [
            row.section,
            row.what,
            _number(row.measured, row.unit),
            "" if row.bare is None else _number(row.bare, row.unit),
            "" if row.ratio is None else f"{row.ratio:.2f}",
            _target(row),
            {None: "", True: "yes", False: "NO"}[row.met],
            row.note,
        ]
        for row in rows
    ]
    head = ["section", "what", "measured", "bare", "ratio", "target", "met", "note"]
    widths = [max(len(line[n]) for line in [head, *cells]) for n in range(len(head))]
    for line in [head, ["-" * width for width in widths], *cells]:
        print(
            "| "
            + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            + " |"
        )


def _number(value: float, unit: str) -> str:
    return f"{value:.2f} {unit}" if value < 100 else f"{value:.0f} {unit}"


def _target(row: Row) -> str:
    if row.target is None:
        return ""
    return f"{row.target:g} x" if row.bare is not None else f"{row.target:g} {row.unit}"
