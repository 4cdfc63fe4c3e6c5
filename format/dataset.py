"""The training data's Parquet files, in the layout that hub datasets have.

`data/SPLIT-00000.parquet`, with `datasets`' features in the files' metadata, so that
`datasets.load_dataset("parquet", data_files=...)` gives every row back as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from collect.errors import ConfigError
from format.rows import COLUMNS, JSON_COLUMNS, encode

ROWS_PER_GROUP = 256


def split_file(folder: Path, split: str) -> Path:
    """Where a split lies below the dataset's folder."""
    return folder / "data" / f"{split}-00000.parquet"


def arrow_schema() -> pa.Schema:
    """The columns' Arrow types, with `datasets`' features as metadata."""
    from datasets import Features, Json, List, Value

    kinds = dict.fromkeys(COLUMNS, Value("string")) | {"attempt": Value("int64")}
    features = Features(kinds | {name: List(Json()) for name in JSON_COLUMNS})
    return features.arrow_schema


class SplitWriter:
    """Writes one split, batch by batch; the file appears with the first row."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pq.ParquetWriter | None = None
        self._rows: list[dict[str, Any]] = []

    def add(self, row: dict[str, Any]) -> None:
        """Write one row, at the latest when the writer is closed."""
        encoded = {name: [encode(item) for item in row[name]] for name in JSON_COLUMNS}
        self._rows.append(row | encoded)
        if len(self._rows) == ROWS_PER_GROUP:
            self._flush()

    def close(self) -> None:
        """Write what is left and finish the file."""
        if self._rows:
            self._flush()
        if self._writer is not None:
            self._writer.close()

    def _flush(self) -> None:
        schema = arrow_schema()
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, schema, compression="zstd")
        columns = {name: [row[name] for row in self._rows] for name in COLUMNS}
        arrays = [_array(columns[field.name], field.type) for field in schema]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        self._rows.clear()


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_list(kind):
        return pa.array(values, pa.list_(pa.string())).cast(kind)
    return pa.array(values, kind)


def read_rows(path: Path, columns: tuple[str, ...] = tuple(COLUMNS)) -> Iterator[dict[str, Any]]:
    """The rows of one split, JSON columns decoded. Raises ConfigError where there is no file."""
    from datasets import Json

    if not path.is_file():
        raise ConfigError(f"{path} does not exist; run `stepinto format` on this run folder first")
    reader = Json()
    for batch in pq.ParquetFile(path).iter_batches(ROWS_PER_GROUP, columns=list(columns)):
        for row in batch.to_pylist():
            for name in set(JSON_COLUMNS) & set(columns):
                row[name] = [reader.decode_example(text) for text in row[name]]
            yield row
