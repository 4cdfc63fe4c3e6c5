"""Stored conversations in Arrow's form, cut between rollouts alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from collect.records import Conversation
from collect.schema import conversation_from_plain

ROWS_AT_ONCE = 32
"""Which are held as Python's objects."""
BYTES_AT_ONCE = 16_000_000
"""Of a table: conversations may be long."""


def whole_rollouts(
    batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int
) -> Iterator[pa.Table]:
    """The batches as tables of at least so many rows, or `BYTES_AT_ONCE`, but for the last; in none
    is a part of a rollout, whose rows stand together."""
    held: list[pa.RecordBatch] = []
    count = size = 0
    for batch in batches:
        rest = batch
        if count >= rows or size >= BYTES_AT_ONCE:
            same = _of_rollout(batch, held[-1]["rollout_id"][-1])
            held.append(batch.slice(0, same))
            rest = batch.slice(same)
            if not rest.num_rows:
                continue
            yield pa.Table.from_batches(held, schema)
            held, count, size = [], 0, 0
        if rest.num_rows:
            held.append(rest)
            count, size = count + rest.num_rows, size + rest.nbytes
    if held:
        yield pa.Table.from_batches(held, schema)


def conversations_of(table: pa.Table) -> Iterator[Conversation]:
    """Its rows, as records."""
    for batch in table.to_batches(max_chunksize=ROWS_AT_ONCE):
        yield from map(conversation_from_plain, batch.to_pylist())


def _of_rollout(batch: pa.RecordBatch, rollout_id: pa.StringScalar) -> int:
    """How many rows at its beginning are of a rollout."""
    ids = batch["rollout_id"]
    return next((i for i, each in enumerate(ids) if each != rollout_id), len(ids))
