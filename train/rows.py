"""Write a split as token ids with labels, memory-mapped, to train on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from format.dataset import read_rows
from train.base_model import Tokenization
from train.config import TrainConfig
from train.encoding import RenderedRow
from train.preflight import Preflight, PreflightRun

SCHEMA = pa.schema({"input_ids": pa.list_(pa.int32()), "labels": pa.list_(pa.int64())})
ROWS_PER_BATCH = 64
COLUMNS = ("messages", "tools", "conversation_id", "trained_turns")
"""The columns that are read; the last only if the split has it."""


def rendered_rows(split: Path, tokenization: Tokenization) -> Iterator[RenderedRow]:
    present = set(pq.read_schema(split).names)
    for row in read_rows(split, tuple(name for name in COLUMNS if name in present)):
        yield RenderedRow(row, tokenization.tokenizer, tokenization.templates)


def repositories_in(split: Path) -> set[str]:
    """The repositories whose bugs a split's rows are about; empty if it has no such column."""
    if "repository" not in pq.read_schema(split).names:
        return set()
    return set(pq.read_table(split, columns=["repository"])["repository"].to_pylist())


def check_split(split: Path, config: TrainConfig, tokenization: Tokenization) -> Preflight:
    rows = pq.read_metadata(split).num_rows
    checks = PreflightRun(config, tokenization.base, tokenization.tokenizer, rows)
    for row in rendered_rows(split, tokenization):
        checks.add(row)
    return checks.report()


def encode_split(
    split: Path, target: Path, config: TrainConfig, tokenization: Tokenization
) -> Preflight:
    """Write every row of a split to `target`, cut to `max_length`, and report on them."""
    rows = pq.read_metadata(split).num_rows
    checks = PreflightRun(config, tokenization.base, tokenization.tokenizer, rows)

    def encoded() -> Iterator[dict[str, Any]]:
        for row in rendered_rows(split, tokenization):
            checks.add(row)
            kept = row.encoded.cut(config.max_length)
            if kept.trained:
                yield {"input_ids": kept.input_ids, "labels": kept.labels}

    write_encoded(encoded(), target, SCHEMA)
    return checks.report()


def write_encoded(rows: Iterator[dict[str, Any]], target: Path, schema: pa.Schema) -> None:
    """Write rows as an Arrow file for `load_rows`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(target), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        while batch := list(islice(rows, ROWS_PER_BATCH)):
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema))


def load_rows(path: Path) -> Any:
    """Rows with any columns as a memory-mapped `datasets.Dataset`."""
    from datasets import Dataset

    return Dataset.from_file(str(path))
