"""Write a split as token ids: with labels, memory-mapped, to train on; and as Parquet in
`RUN/sft/tokenized/`, for trainers that do not apply a template."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from collect.errors import ConfigError
from collect.store.atomic_files import replacing_folder
from format.config import TokenizedConfig
from format.dataset import name_by_content, read_rows, split_file
from train.config import TrainConfig
from train.encoding import RenderedRow, assistant_indices
from train.preflight.report import Preflight
from train.preflight.run import PreflightRun
from train.requirements import require
from train.tokenization import Tokenization, load_tokenization

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


TOKENIZED = "tokenized"
ROWS_PER_GROUP = 256


def write_tokenized(config: TokenizedConfig, sft: Path) -> dict[str, int]:
    """Write the splits of an `sft` folder as `input_ids` and `assistant_masks`; returns rows by
    split.

    Rows are cut to the config's length, and dropped if nothing is left to train on.
    Raises ConfigError if the tokenizer or the template is unavailable.
    """
    require(("transformers", "trl"))
    tokenization = load_tokenization(_train_config(config))
    rows: dict[str, int] = {}
    with replacing_folder(sft / TOKENIZED) as folder:
        for split in _splits(sft):
            source = split_file(sft, split)
            rows[split] = _write_split(folder, split, _encoded(source, tokenization, config))
        facts = {"model": tokenization.base, "max_length": config.max_length, "rows": rows}
        facts["template"] = tokenization.templates.training
        (folder / "tokenization.json").write_text(json.dumps(facts, indent=2) + "\n")
    return rows


def _train_config(config: TokenizedConfig) -> TrainConfig:
    if config.template is None:
        return TrainConfig(base_model=config.model)
    return TrainConfig(
        base_model=config.model,
        training_template=config.template,
        serving_template=config.template,
    )


def _splits(sft: Path) -> list[str]:
    """The existing splits, in the order of the card."""
    found = {path.name.partition("-")[0] for path in (sft / "data").glob("*.parquet")}
    return sorted(found, reverse=True)


def _encoded(
    source: Path, tokenization: Tokenization, config: TokenizedConfig
) -> Iterator[dict[str, Any]]:
    for row in rendered_rows(source, tokenization):
        kept = row.encoded.cut(config.max_length)
        if kept.trained:
            yield {
                "conversation_id": row.conversation_id,
                "input_ids": kept.input_ids,
                "assistant_masks": kept.mask,
            }


def _write_split(folder: Path, split: str, rows: Iterator[dict[str, Any]]) -> int:
    """Write a split's file; returns its number of rows."""
    schema, count = _schema(), 0
    path = folder / f"{split}-00000.parquet"
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        batch: list[dict[str, Any]] = []
        for row in rows:
            batch.append(row)
            count += 1
            if len(batch) == ROWS_PER_GROUP:
                writer.write_table(pa.Table.from_pylist(batch, schema))
                batch = []
        if batch:
            writer.write_table(pa.Table.from_pylist(batch, schema))
    name_by_content(path)
    return count


def _schema() -> pa.Schema:
    """The columns that TRL's SFTTrainer takes, with `datasets`' features as metadata."""
    from datasets import Features, List, Value

    features = Features(
        {
            "conversation_id": Value("string"),
            "input_ids": List(Value("int32")),
            "assistant_masks": List(Value("int8")),
        }
    )
    return features.arrow_schema
