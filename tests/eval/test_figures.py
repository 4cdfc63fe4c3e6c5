"""Tables and figures as data, and what is written of them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from eval.figures import (
    Figure,
    Point,
    Series,
    Table,
    csv_text,
    notes,
    parts,
    record_csv,
    write_records,
)

TABLE = Table("modes", "Modes", "Table 4", ("Mode", "%"), (("a, b", 40.0), ("c", None)), "Noted.")
FIGURE = Figure(
    "rates",
    "Rates",
    "Figure 6",
    "Arm",
    "%",
    (
        Series("main", (Point("first", 50.0, 20.0, 80.0), Point("second", None))),
        Series("sub", (Point("second", 3),)),
    ),
)


def test_csv_has_the_numbers_as_they_are() -> None:
    assert record_csv(TABLE) == 'Mode,%\n"a, b",40.0\nc,\n'
    assert record_csv(FIGURE) == (
        "series,label,value,low,high\nmain,first,50.0,20.0,80.0\nmain,second,,,\nsub,second,3,,\n"
    )


def test_markdown_has_tables_and_the_figures_that_no_table_shows() -> None:
    shown = Figure(**vars(FIGURE) | {"in_text": True})
    assert parts([TABLE, FIGURE]) == parts([TABLE])
    heading, about, rows = parts([TABLE])
    assert (heading, about) == ("## Modes", "Table 4. Noted.")
    assert rows.splitlines()[2:] == ["| a, b | 40.0 |", "| c    | -    |"]
    assert parts([shown])[2].splitlines()[2:] == [
        "| first  | 50.0 | -   |",
        "| second | -    | 3   |",
    ]


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("+1+cmd|'!A0", "'+1+cmd|'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", '"\'\n=1"'),
        ("1\r=1", '"1\n=1"'),
        ("-1.5", "-1.5"),
        ("+2.0 %", "+2.0 %"),
        ("-", "-"),
        (-1.5, "-1.5"),
        ("a=b", "a=b"),
        (None, '""'),
    ],
)
def test_no_cell_is_a_formula(cell: Any, written: str) -> None:
    assert csv_text([[cell]]) == f"{written}\n"


def test_no_text_is_markup_in_a_table() -> None:
    hostile = '<script>1</script>[x](http://evil.test)\n\n# <a href="x">'
    record = replace(TABLE, title=hostile, rows=((hostile, 1.0), ("a < b", 2.0)), note=hostile)
    page = "\n\n".join([*parts([record]), notes([hostile])])
    html = MarkdownIt("gfm-like", {"linkify": False}).render(page)
    assert not {"script", "a", "h1"} & set(re.findall("<([a-z0-9]+)", html))
    assert html.count("&lt;script>") + html.count("&lt;script&gt;") == 4
    assert "a &lt; b" in html


def test_labels_are_those_of_all_series_in_their_order() -> None:
    assert FIGURE.labels == ["first", "second"]


def test_a_second_writing_leaves_nothing_of_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    write_records([TABLE, FIGURE], folder)
    (path,) = write_records([TABLE], folder)
    assert list(folder.iterdir()) == [path]
    assert path.name == "modes.csv"
