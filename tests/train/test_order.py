"""Rows from easy to hard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from collect.errors import ConfigError
from train.rows import SCHEMA, difficulty, load_encoded, spread


def row(turns: int, **columns: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": "x"}
    return {"conversation_id": "c", "messages": [{"role": "user"}, *[said] * turns]} | columns


def test_a_level_counts_before_the_number_of_turns() -> None:
    hard, easy, unknown = row(1, difficulty="hard"), row(9, difficulty="easy"), row(2)
    assert sorted([hard, unknown, easy], key=difficulty) == [easy, unknown, hard]
    assert sorted([row(3), row(1)], key=difficulty) == [row(1), row(3)]


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"train\.curriculum knows easy"):
        difficulty(row(1, difficulty="tricky"))


def test_rows_are_ordered_by_level_then_turns_then_length(tmp_path: Path) -> None:
    keys = [(1.0, 2, 5), (0.0, 9, 9), (1.0, 2, 3), (1.0, 1, 8)]
    batch = [
        {"input_ids": [place] * length, "labels": [0] * length, "level": level, "turns": turns}
        for place, (level, turns, length) in enumerate(keys)
    ]
    path = tmp_path / "rows.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as writer:
        for each in batch:
            writer.write_batch(pa.RecordBatch.from_pylist([each], SCHEMA))
    rows = load_encoded(path, from_easy=True)
    assert rows.column_names == ["input_ids", "labels"]
    assert [each["input_ids"][0] for each in rows] == [1, 3, 2, 0]
    assert [each["input_ids"][0] for each in load_encoded(path)] == [0, 1, 2, 3]
    assert [each["input_ids"][0] for each in spread(load_encoded(path), 2)] == [0, 2]
