"""The trajectory store: Parquet tables that survive a kill at any moment.

Layout of a run folder::

    rollouts/part-ROLLOUT_ID.parquet         one finished rollout
    rollouts/data-N.parquet                  compacted rows; N grows with every rewrite of both
    conversations/...                        the same; a part holds all conversations of a rollout
    .lock                                    held by the writing process

A rollout counts once its file under `rollouts/` exists, which is written last; a part replaces the
compacted rows of the same id. Files appear whole, by rename. Readers skip what an interrupted
writer left: temporary files, conversations without their rollout, and invalid compacted files.

Both tables are compacted together. The new files become valid once `rollouts/data-N.parquet`
exists, which is written after the one of the conversations. The files they replace are removed
after that, parts of rollouts before parts of conversations. So a conversations part without a
rollouts part of the same id belongs to an unfinished rollout, or is in the compacted files.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Sequence
from pathlib import Path
from typing import IO

import pyarrow as pa

from collect.store.atomic_files import locked
from collect.store.records import Conversation, Rollout
from collect.store.schema import (
    CONVERSATIONS,
    ROLLOUTS,
    conversation_from_plain,
    plain,
    rollout_from_plain,
)
from collect.store.tables import Table, rollout_batches

ROWS_AT_ONCE = 32
"""Rows converted to Python objects at once."""
BYTES_AT_ONCE = 16_000_000
"""Size of a table in bytes, since conversations may be long."""


def conversations_of(table: pa.Table) -> Iterator[Conversation]:
    """The table's rows as records."""
    for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE):
        yield from map(conversation_from_plain, batch.to_pylist())


class RunStore:
    """The rollouts and conversations in a folder. One writing process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rollouts = Table(folder / "rollouts", ROLLOUTS)
        self.conversations = Table(folder / "conversations", CONVERSATIONS, self.rollouts)
        self._lock: IO[str] | None = None

    @classmethod
    def open(cls, folder: Path) -> RunStore:
        """Open for writing: make the folders and remove what an interrupted writer left.
        Conversations without their rollout stay until `compact`, since they show that it had a row.

        Raises ConfigError if another process writes here, or a file is broken or of another schema.
        """
        store = cls(folder)
        folder.mkdir(parents=True, exist_ok=True)
        store._lock = locked(folder / ".lock")
        tables = (store.rollouts, store.conversations)
        for table in tables:
            table.check()
        for table in tables:
            table.repair()
        return store

    def close(self) -> None:
        """Release the lock. Reading still works."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def add(self, rollout: Rollout, conversations: Sequence[Conversation]) -> None:
        """Store a finished rollout durably; it replaces an earlier row of the same id.

        Thread-safe for different rollouts. A crash leaves no row, or the earlier compacted one.
        Raises RowRefused and then changes nothing.
        """
        strangers = [c.conversation_id for c in conversations if c.rollout_id != rollout.rollout_id]
        assert not strangers, f"conversations {strangers} are not of rollout {rollout.rollout_id}"
        said = self.conversations.arrow([plain(row) for row in conversations])
        row = self.rollouts.arrow([plain(rollout)])
        self.rollouts.drop_parts({rollout.rollout_id})
        self.conversations.write(rollout.rollout_id, said)
        self.rollouts.write(rollout.rollout_id, row)

    def remove(self, rollout_ids: Collection[str]) -> None:
        """Remove rollouts so that they can be repeated. Nothing may be added meanwhile."""
        if not set(self.rollouts.ids()).isdisjoint(rollout_ids):
            self._rewrite(without=rollout_ids)

    def compact(self) -> None:
        """Merge the part files into one file per table. Nothing may be added meanwhile."""
        if self.rollouts.parts():
            self._rewrite(without=())
        else:
            self.conversations.drop_parts(self.conversations.parts())

    def _rewrite(self, without: Collection[str]) -> None:
        generation, rollouts = self.rollouts.next_generation(), self.rollouts.parts()
        self.conversations.rewrite(generation, self._finished_parts(), without)
        self.rollouts.rewrite(generation, rollouts, without)
        self.rollouts.drop_parts(rollouts)
        self.conversations.drop_parts(self.conversations.parts())
        self.rollouts.repair()
        self.conversations.repair()

    def read_rollouts(self, only: Collection[str] | None = None) -> Iterator[Rollout]:
        """Every rollout once, or only those with some ids, in no particular order.

        Raises ConfigError on an unknown schema.
        """
        return (rollout_from_plain(row) for row in self.rollouts.rows(only=only))

    def read_conversations(
        self, only: Collection[str] | None = None, finished: Container[str] | None = None
    ) -> Iterator[Conversation]:
        """Every conversation of a finished rollout, or only those of some rollouts, grouped by
        rollout. `finished` are the finished rollouts' ids if they are already known.
        """
        if finished is None:
            finished = set(self.rollouts.ids())
        rows = self.conversations.rows(self._finished_parts(), only=only)
        return (conversation_from_plain(row) for row in rows if row["rollout_id"] in finished)

    def conversation_tables(self, rows: int) -> Iterator[pa.Table]:
        """The conversations as stored, in tables of about `rows` rows that don't split a rollout;
        read them with `conversations_of`.
        """
        batches = self.conversations.batches(self._finished_parts())
        return rollout_batches(batches, self.conversations.schema, rows, BYTES_AT_ONCE)

    def _finished_parts(self) -> dict[str, Path]:
        """Part files of conversations whose rollout is finished."""
        conversations = self.conversations.parts()
        rollouts = self.rollouts.parts()
        return {key: path for key, path in conversations.items() if key in rollouts}
