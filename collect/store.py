"""The trajectory store: Parquet tables that survive a kill at any moment.

Layout of a run folder::

    rollouts/part-ROLLOUT_ID.parquet         one finished rollout
    rollouts/data-N.parquet                  compacted rows; N counts the compactions
    conversations/...                        the same, every conversation of a rollout in one part

A rollout counts once its file under `rollouts/` exists, which is written last. Each file appears
whole, by rename. `RunStore.open` mends what an interrupted writer left: temporary files,
conversations without their rollout, and the older copy of rows that stand twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq

from collect.errors import ConfigError
from collect.records import SCHEMA_VERSION, Conversation, Rollout
from collect.schema import (
    CONVERSATIONS,
    ROLLOUTS,
    conversation_from_plain,
    plain,
    rollout_from_plain,
)

TEMPORARY = ".tmp-"
ROWS_PER_GROUP = 256


class RunStore:
    """The rollouts and conversations below one folder. One writing process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rollouts = Table(folder / "rollouts", ROLLOUTS)
        self.conversations = Table(folder / "conversations", CONVERSATIONS)

    @classmethod
    def open(cls, folder: Path) -> RunStore:
        """Open for writing: make the folders, and mend what an interrupted writer left."""
        store = cls(folder)
        for table in (store.rollouts, store.conversations):
            table.mend()
        finished = set(store.rollouts.ids())
        store.conversations.drop(set(store.conversations.ids()) - finished)
        return store

    def add(self, rollout: Rollout, conversations: Sequence[Conversation]) -> None:
        """Make one finished rollout durable, in place of an earlier row of the same id."""
        self.conversations.write(rollout.rollout_id, [plain(row) for row in conversations])
        self.rollouts.write(rollout.rollout_id, [plain(rollout)])

    def remove(self, rollout_ids: Collection[str]) -> None:
        """Forget rollouts, so that they can be done again."""
        self.rollouts.drop(set(rollout_ids))
        self.conversations.drop(set(rollout_ids))

    def compact(self) -> None:
        """Merge the part files into one file a table."""
        self.conversations.compact()
        self.rollouts.compact()

    def read_rollouts(self) -> Iterator[Rollout]:
        """Every rollout once, in no particular order. Raises ConfigError on a foreign schema."""
        return (rollout_from_plain(row) for row in self.rollouts.rows())

    def read_conversations(self) -> Iterator[Conversation]:
        """Every conversation once, those of a rollout together."""
        return (conversation_from_plain(row) for row in self.conversations.rows())


class Table:
    """One folder of part files and a compacted file, all of one schema, keyed by rollout id."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.folder = folder
        self.schema = schema

    def parts(self) -> dict[str, Path]:
        """Part files by rollout id."""
        found = sorted(self.folder.glob("part-*.parquet"))
        return {path.stem.removeprefix("part-"): path for path in found}

    def compacted(self) -> Path | None:
        """The newest compacted file; it holds all that older ones held."""
        return max(self.folder.glob("data-*.parquet"), key=_generation, default=None)

    def ids(self) -> list[str]:
        """The rollout ids of all rows, each once."""
        ids = dict.fromkeys(self.parts())
        newest = self.compacted()
        if newest is not None:
            column = pq.read_table(newest, columns=["rollout_id"])["rollout_id"]
            ids |= dict.fromkeys(column.to_pylist())
        return list(ids)

    def rows(self) -> Iterator[dict[str, Any]]:
        """All rows as plain dicts, read batch by batch."""
        for batch in self._batches(without=frozenset()):
            yield from batch.to_pylist()

    def write(self, rollout_id: str, rows: list[dict[str, Any]]) -> None:
        """Write one part file, durable when this returns."""
        table = pa.Table.from_pylist(rows, schema=self.schema)
        target = self.folder / f"part-{rollout_id}.parquet"
        _write_atomically(target, lambda file: pq.write_table(table, file, compression="zstd"))

    def mend(self) -> None:
        """Remove temporary files and older compacted files."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for leftover in self.folder.glob(f"{TEMPORARY}*"):
            leftover.unlink()
        newest = self.compacted()
        for path in self.folder.glob("data-*.parquet"):
            if path != newest:
                path.unlink()

    def drop(self, rollout_ids: set[str]) -> None:
        """Remove the rows of some rollouts."""
        parts = self.parts()
        if rollout_ids & (set(self.ids()) - set(parts)):
            self.compact(without=frozenset(rollout_ids))
        for rollout_id in rollout_ids & set(self.parts()):
            parts[rollout_id].unlink()

    def compact(self, without: frozenset[str] = frozenset()) -> None:
        """Write all rows to a new compacted file, then remove the files it replaces."""
        parts, newest = self.parts(), self.compacted()
        if not parts and not (newest and without):
            return
        target = self.folder / f"data-{_generation(newest) + 1 if newest else 0}.parquet"

        def write(file: pa.NativeFile) -> None:
            with pq.ParquetWriter(file, self.schema, compression="zstd") as writer:
                for batch in self._batches(without):
                    writer.write_batch(batch, row_group_size=ROWS_PER_GROUP)

        _write_atomically(target, write)
        for path in [*parts.values(), *([newest] if newest else [])]:
            path.unlink()

    def _batches(self, without: frozenset[str]) -> Iterator[pa.RecordBatch]:
        parts, newest = self.parts(), self.compacted()
        if newest is not None:
            superseded = pa.array([*parts, *without], pa.string())
            keep = ~pads.field("rollout_id").isin(superseded)
            yield from self._scan([newest], keep)
        yield from self._scan([path for key, path in parts.items() if key not in without], None)

    def _scan(self, paths: list[Path], keep: pads.Expression | None) -> Iterator[pa.RecordBatch]:
        for path in paths:
            _check_schema(path, self.schema)
            source = pads.dataset(path, schema=self.schema, format="parquet")
            for batch in source.to_batches(filter=keep, batch_size=ROWS_PER_GROUP):
                if batch.num_rows:
                    yield batch


def _generation(path: Path) -> int:
    return int(path.stem.removeprefix("data-"))


def _check_schema(path: Path, schema: pa.Schema) -> None:
    try:
        found = pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise ConfigError(f"{path} is not a readable Parquet file: {error}") from error
    version = (found.metadata or {}).get(b"stepinto.schema_version", b"none").decode()
    if version != str(SCHEMA_VERSION):
        raise ConfigError(
            f"{path} has StepInto schema version {version}, this program reads {SCHEMA_VERSION}; "
            "use the StepInto release that wrote it"
        )
    missing = [name for name in schema.names if name not in found.names]
    if missing:
        raise ConfigError(f"{path} lacks the columns {', '.join(missing)}")


def _write_atomically(target: Path, write: Callable[[pa.NativeFile], None]) -> None:
    temporary = target.parent / f"{TEMPORARY}{target.name}"
    with pa.OSFile(str(temporary), "wb") as file:
        write(file)
    with temporary.open("rb") as written:
        os.fsync(written.fileno())
    temporary.rename(target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
