"""One Parquet table: a folder of part files and a compacted file. `collect.store` holds two."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from collect.errors import ConfigError, FileMoved, RowRefused
from collect.store.files import TEMPORARY, replacing
from collect.store.records import READ_VERSIONS, ROLLOUT_ID


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a file for reading in batches, with at most one row group in memory.

    By default pyarrow reads ahead and keeps everything that it has read.
    """
    return pq.ParquetFile(path, pre_buffer=False)


ROWS_PER_GROUP = 1_024
ROWS_PER_BATCH = 32
SHOWN = 100
"""Characters of a wrong id in a message."""
BYTES_PER_GROUP = 64_000_000
"""In memory. Readers load the whole footer, which grows with each group, so small groups make large
files slow.
"""


class Table:
    """A folder of part files and a compacted file with one schema, keyed by rollout id.

    If the table belongs to another, its valid compacted file is the one with the other's number. So
    the compacted rows of both change at once, when the other's file appears.
    """

    def __init__(self, folder: Path, schema: pa.Schema, belongs_to: Table | None = None) -> None:
        self.folder = folder
        self.schema = schema
        self._numbered_by = belongs_to or self

    def parts(self) -> dict[str, Path]:
        """Part files by rollout id."""
        found = sorted(self.folder.glob("part-*.parquet"))
        return {path.stem.removeprefix("part-"): path for path in found}

    def generations(self) -> list[int]:
        """The numbers of the compacted files, valid or not, from the oldest on."""
        numbers = [path.stem.removeprefix("data-") for path in self.folder.glob("data-*.parquet")]
        return sorted(int(number) for number in numbers if number.isdecimal())

    def compacted(self) -> Path | None:
        """The valid compacted file; it includes the contents of older ones."""
        numbers = self._numbered_by.generations()
        return self.folder / f"data-{numbers[-1]}.parquet" if numbers else None

    def next_generation(self) -> int:
        """The number for the next compacted file."""
        return max(self.generations(), default=-1) + 1

    def ids(self) -> list[str]:
        """The rollout ids of all rows, without duplicates."""
        ids = dict.fromkeys(self.parts())
        path = self.compacted()
        if path is not None:
            with _opened(path, self.schema) as file:
                held = file.read(["rollout_id"])["rollout_id"].cast(pa.string())
                _check_ids(path, held, 0)
                ids |= dict.fromkeys(held.to_pylist())
        return list(ids)

    def rows(
        self,
        parts: Mapping[str, Path] | None = None,
        only: Collection[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """All rows as plain dicts, read in batches. See `batches`."""
        for batch in self.batches(parts, only, columns):
            yield from batch.to_pylist()

    def batches(
        self,
        parts: Mapping[str, Path] | None = None,
        only: Collection[str] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """All rows as Arrow batches: the compacted ones, then those of the parts.

        `parts`: the valid part files, if not all are. `only`: the rollouts to read, default all.
        `columns`: the columns to read, including the rollout's id; or leaves of them, as Parquet
        names them (`messages.list.element.seconds`), which come as they are stored.
        """
        parts = self.parts() if parts is None else parts
        superseded = pa.array(list(parts), pa.string())
        wanted = None if only is None else pa.array(list(only), pa.string())
        names = self.schema.names if columns is None else list(columns)
        of_leaves = any("." in name for name in names)
        read = self.schema if of_leaves else pa.schema([self.schema.field(name) for name in names])
        compacted = self.compacted()
        paths = [path for key, path in parts.items() if only is None or key in only]
        for path in paths if compacted is None else [compacted, *paths]:
            with _opened(path, self.schema) as file:
                read_before = 0
                for stored in file.iter_batches(ROWS_PER_BATCH, columns=names):
                    batch = stored if of_leaves else stored.select(names).cast(read)
                    _check_ids(path, batch["rollout_id"], read_before)
                    read_before += batch.num_rows
                    if path == compacted:
                        batch = batch.filter(pc.invert(pc.is_in(batch["rollout_id"], superseded)))
                    if wanted is not None:
                        batch = batch.filter(pc.is_in(batch["rollout_id"], wanted))
                    if batch.num_rows:
                        yield batch

    def arrow(self, rows: list[dict[str, Any]]) -> pa.Table:
        """Rows in their stored form. Raises RowRefused."""
        try:
            return pa.Table.from_pylist(rows, schema=self.schema)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            raise RowRefused(f"no row of {self.folder.name} can hold it: {error}") from error

    def write(self, rollout_id: str, table: pa.Table) -> None:
        """Write one part file; it is durable on return."""
        with replacing(self.folder / f"part-{rollout_id}.parquet") as temporary:
            pq.write_table(table, temporary, compression="zstd")

    def check(self) -> None:
        """Raises ConfigError if the compacted file is missing, broken or of another schema."""
        path = self.compacted()
        if path is None:
            return
        if not path.exists():
            raise ConfigError(
                f"{path} is missing, without which {self._numbered_by.compacted()} is not whole; "
                "restore it, or move the latter away, and the next start does its rollouts again"
            )
        with _opened(path, self.schema):
            pass

    def repair(self) -> None:
        """Remove temporary files and invalid compacted files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for leftover in self.folder.glob(f"{TEMPORARY}*"):
            leftover.unlink()
        valid = self.compacted()
        for number in self.generations():
            path = self.folder / f"data-{number}.parquet"
            if path != valid:
                path.unlink()

    def drop_parts(self, rollout_ids: Collection[str]) -> None:
        """Remove part files; older compacted rows of these rollouts become valid again."""
        for rollout_id in rollout_ids:
            (self.folder / f"part-{rollout_id}.parquet").unlink(missing_ok=True)

    def compact(self) -> None:
        """Merge the part files into one compacted file."""
        parts = self.parts()
        if parts:
            self.rewrite(self.next_generation(), parts)
            self.drop_parts(parts)
            self.repair()

    def rewrite(self, generation: int, parts: Mapping[str, Path]) -> None:
        """Write the compacted rows and those of some parts to a new compacted file. The replaced
        files stay."""
        held, rows, size = list[pa.RecordBatch](), 0, 0
        with (
            replacing(self.folder / f"data-{generation}.parquet") as temporary,
            pq.ParquetWriter(temporary, self.schema, compression="zstd") as writer,
        ):
            for batch in self.batches(parts):
                held.append(batch)
                rows, size = rows + batch.num_rows, size + batch.nbytes
                if rows >= ROWS_PER_GROUP or size >= BYTES_PER_GROUP:
                    writer.write_table(pa.Table.from_batches(held))
                    held, rows, size = [], 0, 0
            if held:
                writer.write_table(pa.Table.from_batches(held))


def _check_ids(path: Path, ids: pa.Array | pa.ChunkedArray, before: int) -> None:
    """Raise ConfigError for a rollout's id that is none; `before` is the number of rows before."""
    is_id = pc.fill_null(pc.match_substring_regex(ids, ROLLOUT_ID), False)
    if not pc.all(is_id, min_count=0).as_py():
        at = pc.index(is_id, False).as_py()
        raise ConfigError(
            f"{path}, row {before + at + 1}: {ascii(ids[at].as_py())[:SHOWN]} is no rollout's id, "
            "which is 16 hex digits: the file was not written by StepInto, or was changed since; "
            "move it away"
        )


@contextmanager
def _opened(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetFile]:
    try:
        with open_parquet(path) as file:
            found = file.schema_arrow
            version = (found.metadata or {}).get(b"stepinto.schema_version", b"none").decode()
            if version not in map(str, READ_VERSIONS):
                known = " and ".join(map(str, READ_VERSIONS))
                raise ConfigError(
                    f"{path} has StepInto schema version {version}, this program reads {known}; "
                    "use the StepInto release that wrote it"
                )
            rows, size = file.metadata.num_rows, path.stat().st_size
            if rows > size:
                # A row with an id of its own takes more than a byte, however well it compresses.
                raise ConfigError(
                    f"{path} has {rows} rows in {size} bytes, as no file that StepInto wrote: "
                    "move it away"
                )
            missing = [name for name in schema.names if name not in found.names]
            if missing:
                raise ConfigError(
                    f"{path} lacks the columns {', '.join(missing)}; it was not written by "
                    "StepInto, or was changed since: move it away"
                )
            yield file
    except FileNotFoundError as error:
        raise FileMoved(
            f"{path} was moved while it was read: another process writes to this folder; try again"
        ) from error
    except (pa.ArrowException, OSError, KeyError) as error:
        raise ConfigError(
            f"{path} is not a readable Parquet file: {error}; "
            "move it away, and the next start does its rollouts again"
        ) from error
