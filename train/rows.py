"""A split as token ids and labels, in an Arrow file that is read by memory map."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from format.dataset import read_rows
from train.config import TrainConfig
from train.preflight.rendered import RenderedRow
from train.preflight.report import Preflight
from train.preflight.run import PreflightRun
from train.tokenization import Tokenization

SCHEMA = pa.schema({"input_ids": pa.list_(pa.int32()), "labels": pa.list_(pa.int64())})
ROWS_PER_BATCH = 64
COLUMNS = ("messages", "tools", "conversation_id", "trained_turns")
"""What is read of a row; the last where the split has it."""


def rendered_rows(split: Path, tokenization: Tokenization) -> Iterator[RenderedRow]:
    """The rows of a split, in order."""
    present = set(pq.read_schema(split).names)
    for row in read_rows(split, tuple(name for name in COLUMNS if name in present)):
        yield RenderedRow(row, tokenization.tokenizer, tokenization.templates)


def check_split(split: Path, config: TrainConfig, tokenization: Tokenization) -> Preflight:
    """The preflight's report on the rows of a split."""
    checks = _preflight(split, config, tokenization)
    for row in rendered_rows(split, tokenization):
        checks.add(row)
    return checks.report()


def encode_split(
    split: Path, target: Path, config: TrainConfig, tokenization: Tokenization
) -> Preflight:
    """Write every row of a split to `target`, cut to `max_length`, and report on them."""
    checks = _preflight(split, config, tokenization)
    target.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(target), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as writer:
        batch: list[dict[str, list[int]]] = []
        for row in rendered_rows(split, tokenization):
            checks.add(row)
            kept = row.encoded.cut(config.max_length)
            if not kept.trained:
                continue
            batch.append({"input_ids": kept.input_ids, "labels": kept.labels})
            if len(batch) == ROWS_PER_BATCH:
                writer.write_batch(pa.RecordBatch.from_pylist(batch, SCHEMA))
                batch = []
        if batch:
            writer.write_batch(pa.RecordBatch.from_pylist(batch, SCHEMA))
    return checks.report()


def _preflight(split: Path, config: TrainConfig, tokenization: Tokenization) -> PreflightRun:
    rows = pq.read_metadata(split).num_rows
    return PreflightRun(config, tokenization.base, tokenization.tokenizer, rows)


def load_encoded(path: Path) -> Any:
    """The rows as a `datasets.Dataset`."""
    from datasets import Dataset

    return Dataset.from_file(str(path))
