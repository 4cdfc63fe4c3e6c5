"""The papers' tables and figures as plain data, whatever draws them: Markdown, CSV, a page."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from collect.store.atomic_files import write_text
from eval.markdown import table
from eval.metrics import MISSING

FOLDER = "figures"
"""Where their CSV files go, in the folder of the evaluation."""

Cell = str | int | float | None


class FigureKind(StrEnum):
    """How a figure is drawn."""

    BARS = "bars"
    """Side by side, one group a label."""
    STACKED = "stacked"
    """One bar a label, the series on top of each other."""
    SCATTER = "scatter"
    """A point each, at its `x`."""


@dataclass(frozen=True)
class Point:
    """One value, and the ends of its interval where it has one."""

    label: str
    value: float | None
    """None: not known, or nothing to have a value of."""
    low: float | None = None
    high: float | None = None
    x: float | None = None
    """Of a scatter plot."""


@dataclass(frozen=True)
class Series:
    """Values of one kind; a figure's other series have the same labels, or some of them."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Figure:
    """A figure of labelled series."""

    name: str
    """Of its CSV file, without the ending."""
    title: str
    source: str
    """The figure of a paper that it is, or what it is beside."""
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    kind: FigureKind = FigureKind.BARS
    note: str = ""
    in_text: bool = False
    """Whether tables.md has its numbers; not where a table shows them already."""

    @property
    def is_percent(self) -> bool:
        """Whether no value can be more than 100."""
        return self.y_label.startswith("%") and self.kind is not FigureKind.STACKED

    @property
    def labels(self) -> list[str]:
        """Of all series, each once, in their order."""
        return list(dict.fromkeys(point.label for each in self.series for point in each.points))


@dataclass(frozen=True)
class Table:
    """A table with numbers in its cells; percentages are in percent."""

    name: str
    """Of its CSV file, without the ending."""
    title: str
    source: str
    """The table of a paper that it is, or what it is beside."""
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    in_text: bool = True
    """Whether tables.md has it; not where it would be too long."""


Record = Table | Figure


def parts(records: Iterable[Record]) -> list[str]:
    """The Markdown of each: a heading, what it is, its numbers."""
    texts: list[str] = []
    for record in records:
        if not record.in_text:
            continue
        if isinstance(record, Table):
            rows = [list(record.columns), *(list(map(shown, row)) for row in record.rows)]
        else:
            rows = figure_rows(record)
        texts += [f"## {record.title}", about(record), table(rows)]
    return texts


def about(record: Record) -> str:
    """Where it is from, and what a reader must know."""
    return " ".join(filter(None, (record.source and f"{record.source}.", record.note)))


def figure_rows(figure: Figure) -> list[list[str]]:
    """A figure as a table: a row a label, a column a series, its header first."""
    by_label = [{point.label: point for point in each.points} for each in figure.series]
    rows = [[figure.x_label, *(each.name for each in figure.series)]]
    for label in figure.labels:
        points = [found.get(label) for found in by_label]
        rows.append([label, *(shown(p.value) if p is not None else MISSING for p in points)])
    return rows


def shown(cell: Cell) -> str:
    """A cell as text."""
    if cell is None:
        return MISSING
    return f"{cell:.1f}" if isinstance(cell, float) else str(cell)


def write_records(records: Sequence[Record], folder: Path) -> tuple[Path, ...]:
    """A CSV file for each, whole or not at all, and none of an earlier evaluation's."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = tuple(folder / f"{record.name}.csv" for record in records)
    assert len(set(paths)) == len(paths), "two records of one name"
    for path in set(folder.glob("*.csv")) - set(paths):
        path.unlink()
    for path, record in zip(paths, records, strict=True):
        write_text(path, record_csv(record))
    return paths


def record_csv(record: Record) -> str:
    """A table as it is; of a figure one row a point. Empty cells for None."""
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
