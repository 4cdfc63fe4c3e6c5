"""The Arrow schemas and the record classes name the same fields."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pyarrow as pa
import pytest

from collect.store import records, schema
from collect.store.messages import Message, ToolCall
from sandbox.debugger import Breakpoint, DebugEvent, ExceptionInfo, Frame, Value


def names(*classes: type[Any], without: tuple[str, ...] = ()) -> list[str]:
    return [f.name for cls in classes for f in fields(cls) if f.name not in without]


def inner(name: str, of: pa.StructType) -> list[str]:
    """The names below a struct field, or below the items of a list field."""
    field = of.field(name).type
    return [f.name for f in (field.value_type if pa.types.is_list(field) else field)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (schema.ROLLOUTS.names, names(records.Rollout)),
        (schema.CONVERSATIONS.names, names(records.Conversation)),
        (
            [f.name for f in schema.MESSAGE],
            names(Message, records.MessageRow, without=("message",)),
        ),
        (inner("tool_calls", schema.MESSAGE), names(ToolCall)),
        ([f.name for f in schema.EVENT], names(records.EventRow, DebugEvent, without=("event",))),
        (inner("exception", schema.EVENT), names(ExceptionInfo)),
        ([f.name for f in schema.VALUE], names(Value)),
        ([f.name for f in schema.FRAME], names(Frame)),
        ([f.name for f in schema.BREAKPOINT], names(Breakpoint)),
        (inner("tests", pa.struct(list(schema.ROLLOUTS))), names(records.TestRow)),
        (inner("answer", pa.struct(list(schema.CONVERSATIONS))), names(records.DebugAnswer)),
    ],
)
def test_columns_are_the_fields_in_order(found: list[str], expected: list[str]) -> None:
    assert found == expected


def test_the_version_is_in_the_metadata() -> None:
    expected = {b"stepinto.schema_version": str(records.SCHEMA_VERSION).encode()}
    assert schema.ROLLOUTS.metadata == schema.CONVERSATIONS.metadata == expected
