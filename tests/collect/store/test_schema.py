"""The Parquet form of the records, which other programs read."""

from __future__ import annotations

import hashlib

import pyarrow as pa
import pytest

from collect.store.records import SCHEMA_VERSION
from collect.store.run_store import CONVERSATIONS, ROLLOUTS, conversation_from_plain, plain
from tests.records import make_conversations, make_rollout


def columns(schema: pa.Schema) -> str:
    return hashlib.sha256(schema.to_string(show_schema_metadata=False).encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("schema", "version", "digest"),
    [(ROLLOUTS, 9, "abaaf143ecf926bb"), (CONVERSATIONS, 9, "4e71c435d5e30845")],
)
def test_a_change_of_columns_is_a_new_version(schema: pa.Schema, version: int, digest: str) -> None:
    """If this fails, raise SCHEMA_VERSION: rows of earlier releases have other columns."""
    assert (SCHEMA_VERSION, columns(schema)) == (version, digest)


def test_columns_are_named_as_the_fields() -> None:
    (messages,) = [each for each in CONVERSATIONS if each.name == "messages"]
    names = [each.name for each in messages.type.value_type]
    assert names[:4] == ["role", "content", "reasoning", "tool_calls"]
    assert "message" not in names
    assert names[-2:] == ["tokens", "carried_out"]


def test_rows_come_back_as_they_were() -> None:
    for conversation in make_conversations(make_rollout()):
        table = pa.Table.from_pylist([plain(conversation)], schema=CONVERSATIONS)
        assert [conversation_from_plain(row) for row in table.to_pylist()] == [conversation]


def test_the_version_is_in_the_metadata() -> None:
    expected = {b"stepinto.schema_version": str(SCHEMA_VERSION).encode()}
    assert ROLLOUTS.metadata == CONVERSATIONS.metadata == expected
