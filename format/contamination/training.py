"""Training data of several kinds as one stream of rows, with each row's texts and bug.

Accepts a run folder (`rollouts/` and `conversations/`), an `sft/` folder (its train split), files
of rows (.parquet, .jsonl, .jsonl.gz, .json with one row per line) or a folder of them, and
instances of a benchmark.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from collect.benchmarks.base import Instance
from collect.errors import ConfigError
from collect.store.run_store import RunStore
from collect.store.tables import open_parquet
from format.dataset import ROWS_PER_GROUP, read_rows

LINES = (".jsonl", ".jsonl.gz", ".json")
SUFFIXES = (".parquet", *LINES)
COLUMNS = {
    "benchmark": ("benchmark",),
    "instance_id": ("instance_id", "task_id", "question_id", "bug_id", "id"),
    "instance_hash": ("instance_hash", "hash"),
    "repository": ("repository", "repo", "repo_name"),
    "commit": ("base_commit", "commit", "commit_hash"),
}
"""Column names for a row's bug in published data sets."""
PATCHES = ("patch", "gold_patch", "bug_patch")


@dataclass(frozen=True)
class TrainingRow:
    """One row of training data; empty strings for unknown values."""

    source: str
    """The row's name in a report."""
    texts: tuple[str, ...]
    patches: tuple[str, ...] = ()
    """Unified diffs."""
    benchmark: str = ""
    instance_id: str = ""
    instance_hash: str = ""
    repository: str = ""
    commit: str = ""


def rows_of(path: Path) -> Iterator[TrainingRow]:
    """The rows of a folder or file, streamed. Raises ConfigError."""
    if (path / "rollouts").is_dir():
        yield from _run_rows(path)
    elif (path / "data").is_dir():
        yield from _sft_rows(path)
    else:
        for file in _files(path):
            for number, row in enumerate(_file_rows(file), start=1):
                yield _record_row(f"{file.name}, row {number}", row)


def instance_rows(instances: Iterable[Instance]) -> Iterator[TrainingRow]:
    """The bugs of a benchmark as training rows."""
    for bug in instances:
        yield TrainingRow(
            f"{bug.benchmark} {bug.id}",
            (bug.problem_statement,),
            (bug.gold_patch,) if bug.gold_patch else (),
            bug.benchmark,
            bug.id,
            bug.hash,
            bug.repository,
            bug.commit,
        )


def _run_rows(run: Path) -> Iterator[TrainingRow]:
    store = RunStore(run)
    for rollout in store.read_rollouts():
        yield TrainingRow(
            f"rollout {rollout.rollout_id}",
            (),
            (rollout.patch,) if rollout.patch else (),
            rollout.benchmark,
            rollout.instance_id,
            rollout.instance_hash,
            rollout.repository,
        )
    for conversation in store.read_conversations():
        messages = [row.message for row in conversation.messages]
        said = [text for each in messages for text in (each.content, each.reasoning or "")]
        calls = [call.arguments for each in messages for call in each.tool_calls]
        yield TrainingRow(
            f"conversation {conversation.conversation_id}",
            (*said, *(text for call in calls for text in _texts(_decoded(call)))),
            benchmark=conversation.benchmark,
            instance_id=conversation.instance_id,
            repository=conversation.repository,
        )


def _sft_rows(folder: Path) -> Iterator[TrainingRow]:
    files = sorted((folder / "data").glob("train-*.parquet"))
    if not files:
        raise ConfigError(f"{folder / 'data'} has no train-*.parquet; run `stepinto format` first")
    columns = ("messages", "conversation_id", "benchmark", "instance_id", "repository")
    for file in files:
        for row in read_rows(file, columns):
            yield TrainingRow(
                f"row {row['conversation_id']}",
                tuple(_texts(row["messages"])),
                benchmark=row["benchmark"],
                instance_id=row["instance_id"],
                repository=row["repository"],
            )


def _files(path: Path) -> list[Path]:
    inside = sorted(path.iterdir()) if path.is_dir() else [path]
    files = [file for file in inside if file.is_file() and file.name.endswith(SUFFIXES)]
    if not files:
        raise ConfigError(
            f"{path} is no training data: give a run folder, its sft folder, a benchmark's config, "
            f"or a file that ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, or a folder of "
            "such files"
        )
    return files


def _file_rows(file: Path) -> Iterator[Mapping[str, Any]]:
    rows = _parquet_rows(file) if file.suffix == ".parquet" else _json_rows(file)
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            raise ConfigError(f"{file}, row {number}: must be an object with named columns")
        yield row


def _parquet_rows(file: Path) -> Iterator[Any]:
    try:
        for batch in open_parquet(file).iter_batches(ROWS_PER_GROUP):
            yield from batch.to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{file} can't be read as Parquet: {error}") from error


def _json_rows(file: Path) -> Iterator[Any]:
    number = 0
    try:
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            for line in lines:
                number += 1
                if line.strip():
                    yield json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{file}, line {number}: not JSON: {error}") from error
    except (OSError, EOFError) as error:
        raise ConfigError(f"{file} can't be read: {error}") from error


def _record_row(source: str, row: Mapping[str, Any]) -> TrainingRow:
    facts = {name: _first(row, columns) for name, columns in COLUMNS.items()}
    patches = tuple(row[name] for name in PATCHES if isinstance(row.get(name), str) and row[name])
    named = f"{source} ({facts['instance_id']})" if facts["instance_id"] else source
    return TrainingRow(named, tuple(_texts(row)), patches, **facts)


def _first(row: Mapping[str, Any], columns: Iterable[str]) -> str:
    return next((row[name] for name in columns if isinstance(row.get(name), str)), "")


def _texts(value: object) -> Iterator[str]:
    """Every string in nested lists and objects, except keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _decoded(arguments: str) -> object:
    """A call's arguments as values: in JSON, an edit's lines run into each other."""
    try:
        return json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
