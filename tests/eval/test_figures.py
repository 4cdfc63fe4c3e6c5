"""Tables and figures as data, and what is written of them."""

from __future__ import annotations

from pathlib import Path

from eval.figures import Figure, Point, Series, Table, parts, record_csv, write_records

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


def test_labels_are_those_of_all_series_in_their_order() -> None:
    assert FIGURE.labels == ["first", "second"]


def test_a_second_writing_leaves_nothing_of_the_first(tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    write_records([TABLE, FIGURE], folder)
    (path,) = write_records([TABLE], folder)
    assert list(folder.iterdir()) == [path]
    assert path.name == "modes.csv"
