"""The papers' tables and figures as plain data, to be written as Markdown, CSV or HTML."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from collect.store.atomic_files import write_text
from eval.metrics import MISSING

Cell = str | int | float | None


class FigureKind(StrEnum):
    BARS = "bars"
    """Side by side, one group per label."""
    STACKED = "stacked"
    """One bar per label, with stacked series."""
    SCATTER = "scatter"
    """One point each, at its `x`."""


@dataclass(frozen=True)
class Point:
    """A value, and the ends of its interval if it has one."""

    label: str
    value: float | None
    """None: unknown or undefined."""
    low: float | None = None
    high: float | None = None
    x: float | None = None
    """For scatter plots."""


@dataclass(frozen=True)
class Series:
    """Values of one kind; all series of a figure use the same labels, or some of them."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Figure:
    name: str
    """Name of its CSV file, without extension."""
    title: str
    source: str
    """The figure of a paper that it reproduces or complements."""
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    kind: FigureKind = FigureKind.BARS
    note: str = ""
    in_text: bool = False
    """Whether tables.md has its numbers; false if a table already shows them."""

    @property
    def is_percent(self) -> bool:
        """Whether values can't exceed 100."""
        return self.y_label.startswith("%") and self.kind is not FigureKind.STACKED

    @property
    def labels(self) -> list[str]:
        return list(dict.fromkeys(point.label for each in self.series for point in each.points))


@dataclass(frozen=True)
class Table:
    """A table with numeric cells; shares are in percent."""

    name: str
    """Name of its CSV file, without extension."""
    title: str
    source: str
    """The table of a paper that it reproduces or complements."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    in_text: bool = True
    """Whether tables.md has it; false if it would be too long."""


Record = Table | Figure


def without_empty(records: Iterable[Record]) -> list[Record]:
    """The records that have a row or a series."""
    return [each for each in records if (each.rows if isinstance(each, Table) else each.series)]


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns; the first row is the header."""
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(3, *(len(cell) for cell in column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def notes(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def parts(records: Iterable[Record]) -> list[str]:
    """The Markdown of each: heading, description, numbers."""
    texts: list[str] = []
    for record in records:
        if not record.in_text:
            continue
        if isinstance(record, Table):
            rows = [list(record.columns), *(list(map(_shown, row)) for row in record.rows)]
        else:
            rows = [[record.x_label, *(each.name for each in record.series)]]
            values = [{p.label: p.value for p in each.points} for each in record.series]
            for label in record.labels:
                rows.append([label, *(_shown(found.get(label)) for found in values)])
        texts += [f"## {record.title}", about(record), table(rows)]
    return texts


def about(record: Record) -> str:
    return " ".join(filter(None, (record.source and f"{record.source}.", record.note)))


def _shown(cell: Cell) -> str:
    if cell is None:
        return MISSING
    return f"{cell:.1f}" if isinstance(cell, float) else str(cell)


def write_records(records: Sequence[Record], folder: Path) -> tuple[Path, ...]:
    """Write a CSV file for each, atomically, and remove those of an earlier evaluation."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = tuple(folder / f"{record.name}.csv" for record in records)
    assert len(set(paths)) == len(paths), "two records of one name"
    for path in set(folder.glob("*.csv")) - set(paths):
        path.unlink()
    for path, record in zip(paths, records, strict=True):
        write_text(path, record_csv(record))
    return paths


def record_csv(record: Record) -> str:
    """A table as it is; a figure with one row per point. Empty cells for None."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if isinstance(record, Table):
        writer.writerow(record.columns)
        writer.writerows(record.rows)
    else:
        writer.writerow(["series", "label", "x", "value", "low", "high"])
        for series in record.series:
            for p in series.points:
                writer.writerow([series.name, p.label, p.x, p.value, p.low, p.high])
    return text.getvalue()


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """CSV of rows with the same columns, with a header; empty cells for None."""
    text = io.StringIO()
    if rows:
        writer = csv.DictWriter(text, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return text.getvalue()
