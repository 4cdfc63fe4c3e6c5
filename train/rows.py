"""Write a split as token ids and labels, in a memory-mapped Arrow file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from collect.errors import ConfigError
from format.dataset import read_rows
from train.config import TrainConfig
from train.encoding import assistant_indices
from train.preflight.rendered import RenderedRow
from train.preflight.report import Preflight
from train.preflight.run import PreflightRun
from train.tokenization import Tokenization

# Determines the order in which rows are trained.


LEVELS = {"easy": 0.0, "medium": 1.0, "hard": 2.0}
UNKNOWN = LEVELS["medium"]
"""For rows without a level."""


def difficulty(row: dict[str, Any]) -> tuple[float, int]:
    """How hard a row is: first by its level, then by its number of assistant turns.

    Raises ConfigError for an unknown level.
    """
    level = row.get("difficulty")
    turns = len(assistant_indices(row))
    if level is None:
        return UNKNOWN, turns
    if level not in LEVELS:
        raise ConfigError(
            f"conversation {row.get('conversation_id')} has the difficulty {level!r}; "
            f"train.curriculum knows {', '.join(LEVELS)}"
        )
    return LEVELS[level], turns


def from_easy_to_hard(rows: Any) -> Any:
    """Sort a dataset's rows by the columns `level` and `turns`, then by their length in tokens."""
    import numpy
    from pyarrow import compute

    table = rows.data
    tokens = compute.list_value_length(table["input_ids"]).to_numpy()
    keys = (tokens, table["turns"].to_numpy(), table["level"].to_numpy())
    return rows.select(numpy.lexsort(keys))


SCHEMA = pa.schema(
    {
        "input_ids": pa.list_(pa.int32()),
        "labels": pa.list_(pa.int64()),
        "level": pa.float32(),
        "turns": pa.int32(),
    }
)
ORDERING = ("level", "turns")
"""Columns that the trainer does not need."""
ROWS_PER_BATCH = 64
COLUMNS = ("messages", "tools", "conversation_id", "trained_turns", "difficulty")
"""The columns that are read; the last two only if the split has them."""


def rendered_rows(split: Path, tokenization: Tokenization) -> Iterator[RenderedRow]:
    """The rows of a split, in order."""
    present = set(pq.read_schema(split).names)
    for row in read_rows(split, tuple(name for name in COLUMNS if name in present)):
        yield RenderedRow(row, tokenization.tokenizer, tokenization.templates)


def repositories_in(split: Path) -> set[str]:
    """The repositories whose bugs a split's rows are about; empty if it has no such column."""
    if "repository" not in pq.read_schema(split).names:
        return set()
    return set(pq.read_table(split, columns=["repository"])["repository"].to_pylist())


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
    by_difficulty = config.curriculum == "difficulty"
    target.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(target), "wb") as file, pa.ipc.new_stream(file, SCHEMA) as writer:
        batch: list[dict[str, Any]] = []
        for row in rendered_rows(split, tokenization):
            checks.add(row)
            kept = row.encoded.cut(config.max_length)
            if not kept.trained:
                continue
            level, turns = difficulty(row.row) if by_difficulty else (0.0, 0)
            ids = {"input_ids": kept.input_ids, "labels": kept.labels}
            batch.append(ids | {"level": level, "turns": turns})
            if len(batch) == ROWS_PER_BATCH:
                writer.write_batch(pa.RecordBatch.from_pylist(batch, SCHEMA))
                batch = []
        if batch:
            writer.write_batch(pa.RecordBatch.from_pylist(batch, SCHEMA))
    return checks.report()


def _preflight(split: Path, config: TrainConfig, tokenization: Tokenization) -> PreflightRun:
    rows = pq.read_metadata(split).num_rows
    return PreflightRun(config, tokenization.base, tokenization.tokenizer, rows)


def load_encoded(path: Path, *, from_easy: bool = False) -> Any:
    """The rows as a `datasets.Dataset`, in the order of the split or from easy to hard."""
    rows = load_rows(path)
    ordered = from_easy_to_hard(rows) if from_easy else rows
    return ordered.remove_columns(list(ORDERING))


def load_rows(path: Path) -> Any:
    """Rows with any columns as a memory-mapped `datasets.Dataset`."""
    from datasets import Dataset

    return Dataset.from_file(str(path))


def spread(rows: Any, count: int) -> Any:
    """At most `count` of a dataset's rows, evenly spread."""
    total = len(rows)
    if total <= count:
        return rows
    return rows.select([place * total // count for place in range(count)])
