"""The rows as token ids, in `RUN/sft/tokenized/`, for trainers that do not apply a template.

A part of `stepinto format` that is here because it needs the tokenizer, templates and masks of
training.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from collect.store.atomic_files import replacing_folder
from format.config import TokenizedConfig
from format.dataset import name_by_content, split_file
from train.config import TrainConfig
from train.requirements import require
from train.rows import rendered_rows
from train.tokenization import Tokenization, load_tokenization

FOLDER = "tokenized"
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
    with replacing_folder(sft / FOLDER) as folder:
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
