"""The train split as token ids and labels, in an Arrow file that is read by memory map."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from format.dataset import read_rows
from train.encoding import encode_row, render_row
from train.preflight import Preflight

SCHEMA = pa.schema({"input_ids": pa.list_(pa.int32()), "labels": pa.list_(pa.int64())})
ROWS_PER_BATCH = 64


def encode_split(
    split: Path, target: Path, tokenizer: Any, templates: tuple[str, str], max_length: int
) -> Preflight:
    """Write every row of a split to `target`, cut to `max_length`, and count what was seen.

    `templates` are the training and the serving template.
    """
    preflight = Preflight(max_length=max_length)
    target.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(target), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as writer:
        batch: list[dict[str, list[int]]] = []
        for encoded in _encoded(split, tokenizer, templates, preflight):
            batch.append(encoded)
            if len(batch) == ROWS_PER_BATCH:
                writer.write_batch(pa.RecordBatch.from_pylist(batch, SCHEMA))
                batch = []
        if batch:
            writer.write_batch(pa.RecordBatch.from_pylist(batch, SCHEMA))
    return preflight


def _encoded(
    split: Path, tokenizer: Any, templates: tuple[str, str], preflight: Preflight
) -> Iterator[dict[str, list[int]]]:
    training, serving = templates
    for row in read_rows(split, ("messages", "tools", "conversation_id")):
        encoded = encode_row(row, tokenizer, training)
        same = render_row(row, tokenizer, training) == render_row(row, tokenizer, serving)
        preflight.add(encoded, row["conversation_id"], same)
        kept = encoded.cut(preflight.max_length)
        if kept.trained:
            yield {"input_ids": kept.input_ids, "labels": kept.labels}


def load_encoded(path: Path) -> Any:
    """The rows as a `datasets.Dataset`."""
    from datasets import Dataset

    return Dataset.from_file(str(path))
