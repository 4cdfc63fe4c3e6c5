"""Evenly spread rows of a split."""

from __future__ import annotations

from pathlib import Path

from train.rows import SCHEMA, load_rows, spread, write_encoded


def test_rows_are_spread_evenly(tmp_path: Path) -> None:
    path = tmp_path / "rows.arrow"
    write_encoded(({"input_ids": [place], "labels": [0]} for place in range(4)), path, SCHEMA)
    rows = load_rows(path)
    assert rows.column_names == ["input_ids", "labels"]
    assert [each["input_ids"][0] for each in rows] == [0, 1, 2, 3]
    assert [each["input_ids"][0] for each in spread(rows, 2)] == [0, 2]
    assert spread(rows, 4) is rows
