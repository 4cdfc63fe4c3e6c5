"""Write a split as token ids: with labels, memory-mapped, to train on; and as Parquet in
`RUN/sft/tokenized/`, for trainers that do not apply a template."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import compute

from collect.errors import ConfigError
from collect.store.files import replacing_folder
from format.config import TokenizedConfig
from format.dataset import name_by_content, read_rows, split_file
from train.base_model import Tokenization, load_tokenization, require
from train.config import TrainConfig
from train.encoding import RenderedRow, assistant_indices
from train.preflight import Preflight, PreflightRun

LEVELS = {"easy": 0.0, "medium": 1.0, "hard": 2.0}
SCHEMA = pa.schema(
    {
        "input_ids": pa.list_(pa.int32()),
        "labels": pa.list_(pa.int64()),
        "level": pa.float32(),
        "turns": pa.int32(),
    }
)
ROWS_PER_BATCH, ROWS_PER_GROUP = 64, 256
COLUMNS = ("messages", "tools", "conversation_id", "trained_turns", "difficulty")
"""The columns that are read; the last two only if the split has them."""


def difficulty(row: dict[str, Any]) -> tuple[float, int]:
    """How hard a row is: first by its level (medium if it has none), then by its number of
    assistant turns.

    Raises ConfigError for an unknown level.
    """
    level = row.get("difficulty") or "medium"
    if level not in LEVELS:
        raise ConfigError(
            f"conversation {row.get('conversation_id')} has the difficulty {level!r}; "
            f"train.curriculum knows {', '.join(LEVELS)}"
        )
    return LEVELS[level], len(assistant_indices(row))


def find_test_split(run: Path, asked_by: str) -> Path:
    """The test split's file. Raises ConfigError, naming who asked, if there is none."""
    try:
        return split_file(run / "sft", "test")
    except ConfigError as error:
        raise ConfigError(
            f"{asked_by} needs a test split, and {run / 'sft'} has none: its rows' repositories "
            f"were too few for format.test_fraction; raise that, or remove {asked_by}"
        ) from error


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
                by_difficulty = config.curriculum == "difficulty"
                level, turns = difficulty(row.row) if by_difficulty else (0.0, 0)
                ids = {"input_ids": kept.input_ids, "labels": kept.labels}
                yield ids | {"level": level, "turns": turns}

    write_encoded(encoded(), target, SCHEMA)
    return checks.report()


def write_encoded(rows: Iterator[dict[str, Any]], target: Path, schema: pa.Schema) -> None:
    """Write rows as an Arrow file for `load_rows`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with pa.OSFile(str(target), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        while batch := list(islice(rows, ROWS_PER_BATCH)):
            writer.write_batch(pa.RecordBatch.from_pylist(batch, schema))


def load_encoded(path: Path, *, from_easy: bool = False) -> Any:
    """The rows as a `datasets.Dataset`, in the order of the split, or from easy to hard: by level,
    then turns, then length in tokens."""
    rows = load_rows(path)
    if from_easy:
        table = rows.data
        tokens = compute.list_value_length(table["input_ids"]).to_numpy()
        keys = (tokens, table["turns"].to_numpy(), table["level"].to_numpy())
        rows = rows.select(numpy.lexsort(keys))
    return rows.remove_columns(["level", "turns"])


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


def write_tokenized(config: TokenizedConfig, sft: Path) -> dict[str, int]:
    """Write the splits of an `sft` folder as `input_ids` and `assistant_masks`; returns rows by
    split.

    Rows are cut to the config's length, and dropped if nothing is left to train on.
    Raises ConfigError if the tokenizer or the template is unavailable.
    """
    require(("transformers", "trl"))
    from datasets import Features, List, Value

    template = config.template
    tokenization = load_tokenization(
        TrainConfig(base_model=config.model, training_template=template, serving_template=template)
    )
    # The columns that TRL's SFTTrainer takes, with `datasets`' features as metadata.
    schema = Features(
        {
            "conversation_id": Value("string"),
            "input_ids": List(Value("int32")),
            "assistant_masks": List(Value("int8")),
        }
    ).arrow_schema
    counts: dict[str, int] = {}
    splits = {path.name.partition("-")[0] for path in (sft / "data").glob("*.parquet")}
    with replacing_folder(sft / "tokenized") as folder:
        for split in sorted(splits, reverse=True):
            path, counts[split] = folder / f"{split}-00000.parquet", 0
            rows = (
                {
                    "conversation_id": row.conversation_id,
                    "input_ids": kept.input_ids,
                    "assistant_masks": kept.mask,
                }
                for row in rendered_rows(split_file(sft, split), tokenization)
                if (kept := row.encoded.cut(config.max_length)).trained
            )
            with pq.ParquetWriter(path, schema, compression="zstd") as writer:
                while batch := list(islice(rows, ROWS_PER_GROUP)):
                    writer.write_table(pa.Table.from_pylist(batch, schema))
                    counts[split] += len(batch)
            name_by_content(path)
        facts = {"model": tokenization.base, "max_length": config.max_length, "rows": counts}
        facts["template"] = tokenization.templates.training
        (folder / "tokenization.json").write_text(json.dumps(facts, indent=2) + "\n")
    return counts
