"""The training data's Parquet files, in the layout of hub datasets, and their splits.

Files are named `data/SPLIT-00000-CONTENT.parquet`, with `datasets`' features in their metadata, so
that `datasets.load_dataset` returns every row unchanged. The name contains a digest of the content,
because `datasets` caches a folder by its file names and would otherwise return another run's rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Set
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import ArrowException

from collect.benchmarks.held_out import RepositoryNames
from collect.benchmarks.opening import held_out
from collect.errors import ConfigError
from collect.questions.grounding import Support
from collect.store.tables import open_parquet
from format.config import FormatConfig
from format.rows import COLUMNS, Column, encode

TRAIN, TEST = "train", "test"
ROWS_PER_GROUP = 256
"""Rows read at once."""
ROWS_WRITTEN, CHARACTERS_WRITTEN = 2_048, 8_000_000
"""Maximum size of a row group: the metadata of all groups is in memory until the file is
complete."""
Columns = dict[str, Column]


def split_file(folder: Path, split: str, needs: str = "") -> Path:
    """The file of a split in the dataset's folder. Raises ConfigError if there is none; `needs` is
    the setting that would create it."""
    found = sorted((folder / "data").glob(f"{split}-00000*.parquet"))
    if len(found) != 1:
        raise ConfigError(
            f"{folder / 'data'} has {len(found)} files of the split {split!r}, one is needed; "
            f"run `stepinto format` on this run folder first{f', with {needs}' if needs else ''}"
        )
    return found[0]


def arrow_schema(columns: Columns = COLUMNS) -> pa.Schema:
    """The columns' Arrow types, with `datasets`' features as metadata."""
    from datasets import Features, Json, List, Value

    kinds = {
        "text": Value("string"),
        "integer": Value("int64"),
        "number": Value("float64"),
        "flag": Value("bool"),
        "texts": List(Value("string")),
        "flags": List(Value("bool")),
        "claims": {each.value: Value("int64") for each in Support},
        "objects": List(Json()),
    }
    features = Features({name: kinds[column.kind] for name, column in columns.items()})
    schema: pa.Schema = features.arrow_schema
    return schema


def _json_columns(columns: Columns) -> set[str]:
    return {name for name, column in columns.items() if column.kind == "objects"}


class SplitWriter:
    """Writes one split in batches; the file is created with the first row."""

    def __init__(self, folder: Path, split: str, columns: Columns = COLUMNS) -> None:
        self._path = folder / "data" / f"{split}-00000.parquet"
        self._schema = arrow_schema(columns)
        self._json = _json_columns(columns)
        self._writer: pq.ParquetWriter | None = None
        self._rows: list[dict[str, Any]] = []
        self._characters = 0

    def add(self, row: dict[str, Any]) -> None:
        """Write one row, possibly not before `close`; JSON columns may be texts."""
        encoded = {
            name: [item if isinstance(item, str) else encode(item) for item in row[name]]
            for name in self._json
        }
        self._rows.append(row | encoded)
        self._characters += sum(len(text) for texts in encoded.values() for text in texts)
        if len(self._rows) == ROWS_WRITTEN or self._characters >= CHARACTERS_WRITTEN:
            self._flush()

    def close(self) -> None:
        """Write the remaining rows, complete the file, and name it by its content."""
        if self._rows:
            self._flush()
        if self._writer is not None:
            self._writer.close()
            name_by_content(self._path)

    def _flush(self) -> None:
        if self._writer is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._writer = pq.ParquetWriter(self._path, self._schema, compression="zstd")
        arrays = []
        for column in self._schema:
            values = [row[column.name] for row in self._rows]
            if column.name in self._json:
                arrays.append(pa.array(values, pa.list_(pa.string())).cast(column.type))
            else:
                arrays.append(pa.array(values, column.type))
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))
        self._rows.clear()
        self._characters = 0


def name_by_content(path: Path) -> None:
    """Add a digest of a file's content to its name, because `datasets` caches by name."""
    with path.open("rb") as file:
        content = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    path.rename(path.with_stem(f"{path.stem}-{content}"))


def read_rows(
    path: Path,
    columns: tuple[str, ...] | None = None,
    kinds: Columns = COLUMNS,
    decoded: bool = True,
) -> Iterator[dict[str, Any]]:
    """The rows of one split, with JSON columns decoded or as texts; `columns` are those to read,
    None for all.

    `kinds` are all columns of the data. Raises ConfigError for a broken file.
    """
    from datasets import Json

    reader = Json()
    columns = columns or tuple(kinds)
    encoded = _json_columns(kinds) & set(columns) if decoded else set()
    try:
        for batch in open_parquet(path).iter_batches(ROWS_PER_GROUP, columns=list(columns)):
            for row in batch.to_pylist():
                for name in encoded:
                    row[name] = [reader.decode_example(text) for text in row[name]]
                yield row
    except (ArrowException, OSError, KeyError) as error:
        raise ConfigError(
            f"{path} can't be read as training data: {error}; run `stepinto format` on this run "
            "folder again"
        ) from error


class Splits:
    """The split of each repository, the same in all datasets of a run.

    If a repository's name is written in several ways that are assigned to different splits, it is
    in `train`.
    """

    def __init__(self, config: FormatConfig, repositories: Iterable[str]) -> None:
        """`repositories` are those of the conversations. Raises ConfigError if none is left to
        train on."""
        self._config = config
        self._known = frozenset(repositories)
        test = held_out(self._known, config.test_fraction, config.split_seed)
        self._test = _apart(test, self._known - test)
        if self._known <= self._test:
            raise ConfigError(
                f"format.test_fraction = {config.test_fraction} puts all {len(self._known)} "
                "repositories into the test split; lower it, or collect on more repositories"
            )

    def extend(self, repositories: Iterable[str]) -> None:
        """Assign further repositories; the others keep their split."""
        new = set(repositories) - self._known
        tested = RepositoryNames(self._test)
        test = held_out(new, self._config.test_fraction, self._config.split_seed)
        test |= {name for name in new if name in tested}
        self._test |= _apart(test, (self._known - self._test) | (new - test))
        self._known |= new

    def of(self, repository: str) -> str:
        """`train` or `test`."""
        assert repository in self._known, f"{repository} has no side"
        return TEST if repository in self._test else TRAIN


def _apart(test: Set[str], train: Set[str]) -> frozenset[str]:
    """The repositories in `test` that are not also in `train` under another name."""
    known = RepositoryNames(train)
    same = {name for name in test if name in known}
    return _apart(test - same, train | same) if same else frozenset(test)
