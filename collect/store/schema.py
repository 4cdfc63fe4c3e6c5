"""The records' Parquet form: Arrow schemas derived from the dataclasses, and conversions."""

from __future__ import annotations

import sys
import types
import typing
from dataclasses import fields, is_dataclass
from typing import Any, Literal

import pyarrow as pa
from pydantic import TypeAdapter

from collect.store.records import SCHEMA_VERSION, Conversation, EventRow, MessageRow, Rollout
from sandbox.text import storable

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


ROLLOUTS = schema_of(Rollout)
CONVERSATIONS = schema_of(Conversation)
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
    return _ROLLOUT.validate_python(row | {"tests": tests, "patch_marks": marks})


def conversation_from_plain(row: dict[str, Any]) -> Conversation:
    """The inverse of `plain` for a conversation."""
    # Pydantic takes what it needs of each of the two nested rows.
    messages = [each | {"message": each} for each in row["messages"]]
    events = [each | {"event": each} for each in row["events"]]
    return _CONVERSATION.validate_python(row | {"messages": messages, "events": events})
