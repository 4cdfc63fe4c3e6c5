"""Rows of a published data set, from a file or the hub, with their locations for messages."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

from pydantic import BaseModel, ValidationError

from collect.errors import ConfigError, first_wrong_field
from collect.store.files import numbered_lines

Rows = Iterator[tuple[str, object]]
Row = TypeVar("Row", bound=BaseModel)
SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".parquet", ".csv")
ROWS_AT_ONCE = 256
"""Of a Parquet file."""


def file_rows(path: Path, setting: str) -> Rows:
    """Each row of a .jsonl, .jsonl.gz, .json, .parquet or .csv file; CSV cells are text.

    A .json file holds a list of rows, or one row per line. `setting` is the config key that names
    the file. Raises ConfigError.
    """
    suffixes = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; {setting} names one that ends in {suffixes}")
    if not path.name.endswith(SUFFIXES):
        raise ConfigError(f"{path}: the name must end in {suffixes}")
    if path.suffix == ".csv":
        yield from _csv_rows(path)
        return
    if path.suffix == ".parquet":
        rows = _parquet_rows(path)
    elif path.suffix == ".json" and _holds_a_list(path):
        try:
            rows = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{path}: not JSON: {error}") from error
    else:
        yield from _json_lines(path)
        return
    for number, row in enumerate(rows, start=1):
        yield f"{path}, row {number}", row


def _parquet_rows(path: Path) -> Iterator[object]:
    import pyarrow

    from collect.store.tables import open_parquet

    try:
        for batch in open_parquet(path).iter_batches(ROWS_AT_ONCE):
            yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise ConfigError(f"{path}: not Parquet: {error}") from error


def _holds_a_list(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1_000).removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"[")


def _json_lines(path: Path) -> Rows:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in numbered_lines(path, cast(BinaryIO, file)):
                where = f"{path}, line {number}"
                try:
                    yield where, json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise ConfigError(f"{where}: not JSON: {error}") from error
    except (gzip.BadGzipFile, EOFError) as error:
        raise ConfigError(f"{path}: not a whole gzip file: {error}") from error


def hub_rows(
    hub_id: str,
    setting: str,
    *,
    split: str,
    name: str | None = None,
    data_files: list[str] | None = None,
) -> Rows:
    """Each row of one split of a data set on the hub, or of its JSON-lines files `data_files`, for
    data sets that need a loading script. `setting` is the config key that would name a local file
    instead. Raises ConfigError."""
    from datasets import load_dataset

    try:
        if data_files is None:
            rows = load_dataset(hub_id, name, split=split)
        else:
            places = [f"hf://datasets/{hub_id}/{file}" for file in data_files]
            rows = load_dataset("json", data_files=places, split="train")
    # The hub client raises many errors: not found, no network, no permission, no such split.
    except Exception as error:
        raise ConfigError(
            f"{hub_id}: can't be loaded from the hub ({type(error).__name__}: {error}); "
            f"where there is no hub, set {setting} to a local file of it"
        ) from error
    for number, row in enumerate(rows, start=1):
        yield f"{hub_id} {name or split}, row {number}", row


def open_rows(files: Sequence[Path] | None, hub_id: str, setting: str, *, split: str) -> Rows:
    """Each row of these files in sequence, or of the hub if there are none."""
    if files is None:
        return hub_rows(hub_id, setting, split=split)
    return chain.from_iterable(file_rows(file, setting) for file in files)


def checked_by_id(
    rows: Rows, model: type[Row], published: str, id_of: Callable[[Row], str]
) -> dict[str, Row]:
    """Every row as a record, by id. Raises ConfigError as `checked` does, and for a duplicate id,
    with both locations."""
    records: dict[str, Row] = {}
    places: dict[str, str] = {}
    for where, row in rows:
        record = checked(where, row, model, published)
        key = id_of(record)
        if key in records:
            raise ConfigError(
                f"{where}: {key} stands in {places[key]} already; remove one of the two"
            )
        records[key], places[key] = record, where
    return records


def checked(where: str, row: object, model: type[Row], published: str) -> Row:
    """The row as a record. Raises ConfigError with the location, the column and the expected format
    (`published`)."""
    try:
        return model.model_validate(row)
    except ValidationError as error:
        told = f"{'column ' if isinstance(row, dict) else ''}{first_wrong_field(error, model)}"
        raise ConfigError(f"{where}: {told}; the columns of {published} are expected") from error


def _csv_rows(path: Path) -> Rows:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8: {error}") from error
    earlier = csv.field_size_limit(len(text) + 1)
    try:
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        if not rows:
            raise ConfigError(f"{path}: no rows below the line that names the columns")
        for number, row in enumerate(rows, start=1):
            if None in row or None in row.values():
                raise ConfigError(f"{path}, row {number}: not as many cells as the header names")
            yield f"{path}, row {number}", row
    except csv.Error as error:
        raise ConfigError(f"{path}: not CSV: {error}") from error
    finally:
        csv.field_size_limit(earlier)
