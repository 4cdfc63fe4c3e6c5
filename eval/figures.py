"""The papers' tables and figures as plain data: written as Markdown, CSV and JSON, drawn as SVG."""

from __future__ import annotations

import csv
import io
import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from collect.console import visible
from collect.markdown import plain
from collect.quantities import tokens
from collect.store.files import write_text
from eval.metrics import MISSING, Facts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis
    from matplotlib.figure import Figure as Canvas

Cell = str | int | float | None


@dataclass(frozen=True)
class Point:
    """A value, and the ends of its interval if it has one."""

    label: str
    value: float | None
    """None: unknown or undefined."""
    low: float | None = None
    high: float | None = None
    arm: str = ""
    """The arm whose colour it has; empty if it is of none, or of several."""


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
    stacked: bool = False
    """Whether the series of a label are end to end in one bar, not side by side."""
    note: str = ""
    in_text: bool = False
    """Whether tables.md has its numbers; false if a table already shows them."""

    @property
    def is_percent(self) -> bool:
        """Whether values can't exceed 100."""
        return self.y_label.startswith("%") and not self.stacked

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
    """The records that have a row or a point."""
    return [each for each in records if (each.rows if isinstance(each, Table) else each.labels)]


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with aligned columns; the first row is the header."""
    cells = [[plain(cell).replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(3, *(len(cell) for cell in column)) for column in zip(*cells, strict=True)]
    lines = [
        "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        for row in cells
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def notes(lines: Iterable[str]) -> str:
    return "\n".join(f"- {plain(line)}" for line in lines)


def parts(records: Iterable[Record]) -> list[str]:
    """The Markdown of each: heading, description, numbers."""
    texts: list[str] = []
    for record in without_empty(records):
        if not record.in_text:
            continue
        if isinstance(record, Table):
            rows = [list(record.columns), *(list(map(_shown, row)) for row in record.rows)]
        else:
            rows = [[record.x_label, *(each.name for each in record.series)]]
            values = [{p.label: p.value for p in each.points} for each in record.series]
            for label in record.labels:
                rows.append([label, *(_shown(found.get(label)) for found in values)])
        texts += [f"## {plain(record.title)}", plain(about(record)), table(rows)]
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
    """A table as it is; a figure with one row per point."""
    if isinstance(record, Table):
        return csv_text([record.columns, *record.rows])
    rows = [
        (series.name, p.label, p.value, p.low, p.high)
        for series in record.series
        for p in series.points
    ]
    return csv_text([("series", "label", "value", "low", "high"), *rows])


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Empty cells for None. No text is a formula to a spreadsheet."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([map(_no_formula, row) for row in rows])
    return text.getvalue()


FORMULA = re.compile(r"[\t\n]|\s*[=+\-@]")
NUMERIC = re.compile(r"-|[-+]?[\d.,]+ ?%?")


def _no_formula(cell: Any) -> Any:
    if not isinstance(cell, str):
        return cell
    # A carriage return alone is not quoted, and would begin a row.
    text = cell.replace("\r\n", "\n").replace("\r", "\n")
    is_formula = FORMULA.match(text) and not NUMERIC.fullmatch(text)
    return f"'{text}" if is_formula else text


FORMAT_VERSION = 2
MARKDOWN, RESULTS, FIGURES = "tables.md", "results.json", "figures"
"""Names of the tables, of the file with everything, and of the folder of further figures."""


@dataclass(frozen=True)
class TablePaths:
    markdown: Path
    csv: Path
    """One row per arm or model; other CSV files are next to it."""
    json: Path


def write_results(
    folder: Path,
    page: str,
    tables: Mapping[str, Sequence[Facts]],
    results: Mapping[str, Any],
    records: Sequence[Record],
) -> TablePaths:
    """Write `page`, a CSV file for each table and record, and `results` with the records, each file
    atomically, and nothing for empty ones. The first of `tables` has a file even if it is empty."""
    records = without_empty(records)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.csv" for name in tables]
    write_text(folder / MARKDOWN, page)
    for path, rows in zip(paths, tables.values(), strict=True):
        if rows or path is paths[0]:
            write_text(path, csv_text([*rows[:1], *(row.values() for row in rows)]))
    if records:
        write_records(records, folder / FIGURES)
    whole = {"format_version": FORMAT_VERSION, **results, "figures": [asdict(r) for r in records]}
    write_text(folder / RESULTS, json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    return TablePaths(folder / MARKDOWN, paths[0], folder / RESULTS)


# Charts: figures drawn as SVG by matplotlib.

ARMS = ("#0b6fb8", "#d9730d", "#16835f", "#b5307e", "#7a52c7", "#8c6d00", "#3d8fb0", "#a33a2a")
OTHERS = ("#8798ab", "#cdb06f", "#a5c09a", "#b79ab5", "#5f6b78", "#d3a08f", "#b4b4a8", "#86b3b5")
"""Colours of arms, and of series that are no arms'; each repeat after the last."""
SHADES = (1.0, 0.55, 0.25)
"""Opacity of the first, second and later series of the same arms."""
SCRIPTED = "(scripted)"
TEXT, MUTED, EDGE = "#1d1f21", "#5b6067", "#d9d9d3"
FONT = 13
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "",
    "text.parse_math": False,
    "text.color": TEXT,
    "font.size": FONT,
    "axes.labelcolor": TEXT,
    "axes.axisbelow": True,
    "figure.constrained_layout.h_pad": 6 / 72,
    "grid.color": EDGE,
    "grid.linewidth": 1,
    "xtick.labelcolor": TEXT,
    "ytick.labelcolor": TEXT,
    "legend.frameon": False,
    "legend.borderpad": 0,
    "legend.handleheight": 0.8,
    "legend.handlelength": 0.8,
    "legend.labelspacing": 0.35,
}
WIDTH, AXIS_HEIGHT = 640, 48
BAR, BAR_GAP, GROUP_GAP, LINE, CHARACTER = 16, 4, 16, 15, 7
"""Sizes in points; a character has the average width."""
LABEL_CHARACTERS, LEGEND_CHARACTERS, MOST_LINES = 34, 85, 6
"""Maximum line length of a group's name and of a series' name, and lines of a name."""


def results_of(folder: Path) -> dict[str, Any]:
    """An evaluation's results.json; empty if there is none of this version."""
    path = folder / RESULTS
    results = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return results if results.get("format_version") == FORMAT_VERSION else {}


def figures_of(results: Mapping[str, Any]) -> list[Figure]:
    """The figures of an evaluation's results that say something."""
    records = [record for record in results.get("figures", ()) if "series" in record]
    return [
        figure
        for figure in TypeAdapter(tuple[Figure, ...]).validate_python(records)
        if _says_something(figure)
    ]


def _says_something(figure: Figure) -> bool:
    """Whether to draw it: rates of 0 count, but not numbers that are all 0."""
    points = [p for series in figure.series for p in series.points if p.value is not None]
    return any(p.value for p in points) or (figure.is_percent and bool(points))


def colour_of(arm: str, places: Mapping[str, int]) -> str:
    """An arm's colour in every chart and table of a stage, by its place among the stage's arms."""
    return ARMS[places.get(arm, len(places)) % len(ARMS)]


def draw(figure: Figure, places: Mapping[str, int]) -> str:
    """The chart as SVG, the same for the same figure. `places` are the arms' by name, and decide
    their colours; bars of scripted arms are pale."""
    from matplotlib import style
    from matplotlib.figure import Figure as Canvas

    with style.context(["default", STYLE]), warnings.catch_warnings():
        # Ignore warnings about characters that matplotlib's font lacks: browsers have other fonts.
        warnings.filterwarnings("ignore", "Glyph", UserWarning)
        canvas = Canvas(layout="constrained", dpi=72)
        axes = canvas.add_subplot()
        axes.tick_params(length=0, pad=6)
        axes.spines[:].set_visible(False)
        looks = _looks(figure, places)
        height = _bars(axes, figure, looks)
        canvas.set_size_inches(WIDTH / 72, height / 72)
        if len(figure.series) > 1:
            height += _legend(canvas, figure, looks)
            canvas.set_size_inches(WIDTH / 72, height / 72)
        drawn = io.StringIO()
        canvas.savefig(drawn, format="svg", transparent=True, metadata={"Date": None})
    return drawn.getvalue()


Look = dict[str, Any]
"""How matplotlib fills a bar."""


def _looks(figure: Figure, places: Mapping[str, int]) -> list[dict[str, Look]]:
    """The looks of each series' bars, by arm. A later series of the same arms is paler."""
    seen: Counter[str] = Counter()
    looks = []
    for number, series in enumerate(figure.series):
        arms = {point.arm for point in series.points} or {""}
        found = {}
        for arm in arms:
            colour = colour_of(arm, places) if arm else OTHERS[number % len(OTHERS)]
            shade = SHADES[min(seen[arm], len(SHADES) - 1)] if arm else 1.0
            filled = shade * (0.4 if SCRIPTED in arm else 1)
            found[arm] = {"facecolor": (colour, filled), "edgecolor": colour, "linewidth": 0.8}
        seen.update(arms)
        looks.append(found)
    return looks


def _legend(canvas: Canvas, figure: Figure, looks: Sequence[Mapping[str, Look]]) -> float:
    """The names of the series, above the chart; those of several arms have no colour of their own.
    Returns the height."""
    from matplotlib.patches import Patch

    names = [_lines(each.name, LEGEND_CHARACTERS) for each in figure.series]
    handles = []
    for found in looks:
        look = next(iter(found.values()))
        if len(found) > 1:
            look = {"facecolor": (MUTED, look["facecolor"][1]), "edgecolor": MUTED}
        handles.append(Patch(**look))
    # As many columns as fit the longest name.
    longest = max(len(line) for name in names for line in name.split("\n"))
    columns = max(1, min(len(names), WIDTH // (CHARACTER * (longest + 5))))
    legend = canvas.legend(handles, names, loc="outside upper left", ncols=columns)
    return float(legend.get_window_extent().height)


def _bars(axes: Axes, figure: Figure, looks: Sequence[Mapping[str, Look]]) -> float:
    """Horizontal bars, with room for long names. Returns the height."""
    y, places, ends = GROUP_GAP / 2, dict[str, float](), [0.0]
    for label in figure.labels:
        bars = [
            (found[point.arm], point)
            for found, series in zip(looks, figure.series, strict=True)
            for point in series.points
            if point.label == label and point.value is not None
        ]
        if not bars:
            continue
        bars_height = BAR if figure.stacked else len(bars) * (BAR + BAR_GAP) - BAR_GAP
        height = max(bars_height, LINE * (1 + _lines(label, LABEL_CHARACTERS).count("\n")))
        places[label] = y + height / 2
        ends += _group(axes, bars, y + (height - bars_height + BAR) / 2, figure.stacked)
        y += height + GROUP_GAP
    _scale(axes.xaxis, ends, figure)
    axes.axvline(0, color=MUTED, linewidth=1, zorder=0.9)
    axes.set_xlabel(visible(figure.y_label))
    axes.set_ylim(y - GROUP_GAP / 2, 0)
    axes.set_yticks(list(places.values()), [_lines(label, LABEL_CHARACTERS) for label in places])
    return y + AXIS_HEIGHT


def _group(axes: Axes, bars: Sequence[tuple[Look, Point]], y: float, stacked: bool) -> list[float]:
    """Bars below each other, with intervals, or end to end. Returns what the axis must cover."""
    ends, start = [0.0], 0.0
    for look, point in bars:
        value = point.value or 0.0
        axes.barh(y, value, BAR, start, **look)
        end = max(0.0, start + value)
        if point.low is not None and point.high is not None and not stacked:
            low, high = point.low, point.high
            across, down = [low, low, low, high, high, high], [y - 4, y + 4, y, y, y - 4, y + 4]
            axes.plot(across, down, color=TEXT, alpha=0.75)
            ends += [low, high]
            end = max(end, high)
        ends.append(start + value)
        if stacked:
            start += value
        else:
            _value(axes, value, end, y)
            y += BAR + BAR_GAP
    if stacked:
        _value(axes, start, start, y)
    return ends


def _value(axes: Axes, value: float, x: float, y: float) -> None:
    place, units = (6, 0), "offset points"
    axes.annotate(_number(value), (x, y), place, textcoords=units, va="center_baseline")


def _scale(axis: XAxis, values: Sequence[float], figure: Figure) -> None:
    """Round ticks from 0, or from below if a value is negative, to past the largest value."""
    from matplotlib.ticker import MaxNLocator

    known = [0.0, *(value for value in values if math.isfinite(value))]
    low, high = min(known), max(*known, 100.0 if figure.is_percent else 0.0)
    locator = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
    ticks = locator.tick_values(low, high if high > low else low + 1)
    large = ticks[1] - ticks[0] >= 1000
    axis.set_ticks(ticks, [tokens(each) if large else f"{round(each, 10):g}" for each in ticks])
    axis.axes.set_xlim(ticks[0], ticks[-1])
    axis.grid(True)


def _lines(text: str, characters: int) -> str:
    """The text in lines, both arms of a difference from a new one. A very long name is cut in its
    middle, since its end tells it from others."""
    lines = []
    for name in visible(text).replace(" - ", "\n- ").split("\n"):
        wrapped = wrap(name, characters)
        if len(wrapped) > MOST_LINES:
            wrapped[2:-2] = ["…"]
        lines += wrapped
    return "\n".join(lines)


def _number(value: float) -> str:
    """A value formatted for a chart: 61.2, 1,204, 0.0315."""
    if 0 < abs(value) < 0.95:
        return f"{value:.3g}"
    return f"{value:,.1f}".removesuffix(".0")
