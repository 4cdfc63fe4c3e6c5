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

import json
import sys
import types
import typing
from collections.abc import Collection, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter, ValidationError

from collect.errors import ConfigError
from collect.store.files import LOCK, SETTINGS, TEMPORARY, locked
from collect.store.messages import BROKEN
from collect.store.records import SCHEMA_VERSION, Conversation, EventRow, MessageRow, Rollout
from collect.store.tables import Table
from sandbox.text import storable

# The records' Parquet form: Arrow schemas derived from the dataclasses, and conversions.


METADATA = {"stepinto.schema_version": str(SCHEMA_VERSION)}
SCALARS = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
FLATTENED = {MessageRow: "message", EventRow: "event"}
"""The field of a row whose own fields stand among the row's columns."""


def schema_of(record: type[Any]) -> pa.Schema:
    """The Arrow schema of a table with one dataclass per row."""
    return pa.schema(_columns(record), metadata=METADATA)


def _columns(record: type[Any]) -> dict[str, pa.DataType]:
    hints = typing.get_type_hints(record)
    columns: dict[str, pa.DataType] = {}
    for field in fields(record):
        if field.name == FLATTENED.get(record):
            columns |= _columns(hints[field.name])
        else:
            columns[field.name] = _arrow_type(hints[field.name])
    return columns


def _arrow_type(annotation: Any) -> pa.DataType:
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        (annotation,) = (each for each in inner if each is not types.NoneType)
        return _arrow_type(annotation)
    if origin is tuple:
        return pa.list_(_arrow_type(inner[0]))
    if origin is Literal:
        return pa.string()
    if is_dataclass(annotation):
        assert isinstance(annotation, type)
        return pa.struct(_columns(annotation))
    return next(form for scalar, form in SCALARS.items() if issubclass(annotation, scalar))


ROLLOUTS, CONVERSATIONS = schema_of(Rollout), schema_of(Conversation)
_ROLLOUT, _CONVERSATION = TypeAdapter(Rollout), TypeAdapter(Conversation)


def plain(record: Any) -> Any:
    """A record as dicts, lists and scalars, nested as its Arrow schema is."""
    if names := getattr(record, "__dataclass_fields__", None):
        columns = {name: plain(getattr(record, name)) for name in names}
        if nested := FLATTENED.get(type(record)):
            columns |= columns.pop(nested)
        return columns
    if isinstance(record, tuple | list):
        return [plain(item) for item in record]
    if isinstance(record, str) and not record.isascii():
        return storable(record)
    return record


def rollout_from_plain(row: dict[str, Any]) -> Rollout:
    """The inverse of `plain` for a rollout."""
    # Rows of one bug name the same tests, and there may be thousands.
    tests = [{name: sys.intern(text) for name, text in test.items()} for test in row["tests"]]
    marks = list(map(sys.intern, row["patch_marks"]))
    rollout = _ROLLOUT.validate_python(row | {"tests": tests, "patch_marks": marks})
    _check_json(rollout.sampling, rollout.actions)
    return rollout


def conversation_from_plain(row: dict[str, Any]) -> Conversation:
    """The inverse of `plain` for a conversation."""
    # Pydantic takes what it needs of each of the two nested rows.
    messages = [each | {"message": each} for each in row["messages"]]
    events = [each | {"event": _with_defaults(each)} for each in row["events"]]
    conversation = _CONVERSATION.validate_python(row | {"messages": messages, "events": events})
    _check_json(conversation.sampling, conversation.tools)
    return conversation


def _with_defaults(event: dict[str, Any]) -> dict[str, Any]:
    """An event whose exception has no null in place of what earlier versions lack."""
    if event["exception"] is None:
        return event
    known = {name: value for name, value in event["exception"].items() if value is not None}
    return event | {"exception": known}


def _check_json(*texts: str) -> None:
    """Raises ValueError or RecursionError for a column's text that is no JSON to read."""
    for text in texts:
        json.loads(text)


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
        store._lock = locked(folder / LOCK)
        for leftover in (*folder.glob(f"{TEMPORARY}*"), *folder.glob(f"{SETTINGS}/{TEMPORARY}*")):
            if not leftover.is_dir():
                leftover.unlink(missing_ok=True)
        for table in (store.rollouts, store.conversations):
            table.check()
        for table in (store.rollouts, store.conversations):
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

    def compact(self) -> None:
        """Merge the part files into one file per table. Nothing may be added meanwhile."""
        rollouts = self.rollouts.parts()
        if rollouts:
            generation = self.rollouts.next_generation()
            self.conversations.rewrite(generation, self._finished_parts())
            self.rollouts.compact()
        self.conversations.drop_parts(self.conversations.parts())
        self.conversations.repair()

    def read_rollouts(self, only: Collection[str] | None = None) -> Iterator[Rollout]:
        """Every rollout once, or only those with some ids, in no particular order.

        Raises ConfigError on an unknown schema.
        """
        for row in self.rollouts.rows(only=only):
            with self._readable(row):
                rollout = rollout_from_plain(row)
            yield rollout

    def read_conversations(
        self, only: Collection[str] | None = None, finished: Container[str] | None = None
    ) -> Iterator[Conversation]:
        """Every conversation of a finished rollout, or only those of some rollouts, grouped by
        rollout. `finished` are the finished rollouts' ids if they are already known.
        """
        if finished is None:
            finished = set(self.rollouts.ids())
        for batch in self.conversations.batches(self._finished_parts(), only=only):
            yield from self.conversations_in(batch, finished)

    def conversation_tables(self) -> Iterator[pa.Table]:
        """All stored conversations, some whole rollouts at a time, for `conversations_in`."""
        held = CONVERSATIONS.empty_table()
        for batch in self.conversations.batches(self._finished_parts()):
            held = pa.concat_tables([held, pa.Table.from_batches([batch])])
            ids = held["rollout_id"]
            # The next batch may have more of the last rollout.
            begin = pc.index(ids, ids[-1]).as_py()
            if begin:
                yield held.slice(0, begin)
            held = held.slice(begin)
        if held.num_rows:
            yield held

    def conversations_in(
        self, stored: pa.RecordBatch | pa.Table, finished: Container[str]
    ) -> Iterator[Conversation]:
        """The conversations of finished rollouts among stored ones."""
        for row in stored.to_pylist():
            if row["rollout_id"] in finished:
                with self._readable(row):
                    conversation = conversation_from_plain(row)
                yield conversation

    @contextmanager
    def _readable(self, row: dict[str, Any]) -> Iterator[None]:
        """Raises ConfigError if a row does not hold what its record does."""
        try:
            yield
        except BROKEN as error:
            told = str(error)
            if isinstance(error, ValidationError):
                wrong = error.errors(include_url=False)[0]
                told = f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"
            raise ConfigError(
                f"the row of rollout {row['rollout_id']} in {self.folder} was not written by "
                f"StepInto, or was changed since: {told}"
            ) from error

    def _finished_parts(self) -> dict[str, Path]:
        """Part files of conversations whose rollout is finished."""
        finished = self.rollouts.parts()
        return {key: path for key, path in self.conversations.parts().items() if key in finished}
