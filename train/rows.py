"""Write a split as token ids with labels, memory-mapped, to train on."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from collect.agents.debug2fix import instructions_hash
from collect.store.records import Role
from format.dataset import COLUMNS, read_rows
from format.preferences import PAIR_COLUMNS
from train.base_model import Tokenization
from train.config import TrainConfig
from train.encoding import RenderedRow
from train.preflight import Preflight, PreflightRun

SCHEMA = pa.schema({"input_ids": pa.list_(pa.int32()), "labels": pa.list_(pa.int64())})
ROWS_PER_BATCH = 64
READ = ("messages", "tools", "conversation_id", "trained_turns")
"""The columns that are read; the last only if the split has it."""


def rendered_rows(split: Path, tokenization: Tokenization) -> Iterator[RenderedRow]:
    present = set(pq.read_schema(split).names)
    for row in read_rows(split, tuple(name for name in READ if name in present)):
        yield RenderedRow(row, tokenization.tokenizer, tokenization.templates)


def repositories_in(split: Path) -> set[str]:
    """The repositories whose bugs a split's rows are about; empty if it has no such column."""
    if "repository" not in pq.read_schema(split).names:
        return set()
    return set(pq.read_table(split, columns=["repository"])["repository"].to_pylist())


def instructions_in(split: Path, pairs: bool = False) -> set[str]:
    """The hashes of the Debug Subagents' system prompts and tools in a split's rows, or pairs."""
    first, kinds = ("prompt", PAIR_COLUMNS) if pairs else ("messages", COLUMNS)
    names, found = pq.read_schema(split).names, set[str]()
    columns = tuple(name for name in (first, "tools", "role") if name in names)
    for row in read_rows(split, columns, kinds) if "tools" in columns else ():
        opening = row[first][0]
        of_subagent = row.get("role", Role.DEBUG_SUBAGENT) == Role.DEBUG_SUBAGENT
        if of_subagent and opening["role"] == "system":
            found.add(instructions_hash(opening["content"], row["tools"]))
    return found


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
