"""The rows of HumanEvalFix, from a file or from the hub, checked."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from collect.benchmarks.base import Language
from collect.errors import ConfigError

HUB_ID = "bigcode/humanevalpack"


class Row(BaseModel):
    """The upstream columns in use; the others are ignored."""

    model_config = ConfigDict(extra="ignore", strict=True)

    task_id: str
    prompt: str
    canonical_solution: str
    buggy_solution: str
    test: str
    entry_point: str
    docstring: str
    bug_type: str

    @property
    def language(self) -> str:
        """The first half of the task's id, `Java/17`, in lower case."""
        return self.task_id.partition("/")[0].lower()


def file_rows(path: Path, languages: Sequence[Language]) -> Iterator[tuple[str, Row]]:
    """Each row of a .jsonl, .jsonl.gz or .parquet file, and where it stands.

    Raises ConfigError where the file or a row is not what it should be, or of another language.
    """
    for where, row in _raw_rows(path):
        yield where, _validated(where, row, languages)


def hub_rows(hub_id: str, languages: Sequence[Language]) -> Iterator[tuple[str, Row]]:
    """Each row of the data set on the hub, and where it stands. Raises ConfigError."""
    for language in languages:
        for where, row in _hub_rows(hub_id, language):
            yield where, _validated(where, row, languages)


def _validated(where: str, row: object, languages: Sequence[Language]) -> Row:
    try:
        task = Row.model_validate(row)
    except ValidationError as error:
        first = error.errors()[0]
        column = ".".join(map(str, first["loc"])) or "the row"
        raise ConfigError(
            f"{where}: column {column}: {first['msg']}; the columns of {HUB_ID} are expected"
        ) from error
    if task.language not in languages:
        wanted = " or ".join(language.capitalize() for language in languages)
        raise ConfigError(
            f"{where}: column task_id: {task.task_id} is not a {wanted} task; give the file of "
            "that language, or set benchmark.language"
        )
    return task


def _raw_rows(path: Path) -> Iterator[tuple[str, object]]:
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; benchmark.path names a HumanEvalFix file")
    if path.suffix == ".parquet":
        yield from _parquet_rows(path)
    elif path.name.endswith((".jsonl", ".jsonl.gz")):
        yield from _json_lines(path)
    else:
        raise ConfigError(f"{path}: the name must end in .jsonl, .jsonl.gz or .parquet")


def _json_lines(path: Path) -> Iterator[tuple[str, object]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    for number, line in enumerate(data.split(b"\n"), start=1):
        where = f"{path}, line {number}"
        if line.strip():
            try:
                yield where, json.loads(line)
            except ValueError as error:
                raise ConfigError(f"{where}: not JSON: {error}") from error


def _parquet_rows(path: Path) -> Iterator[tuple[str, Mapping[str, object]]]:
    import pyarrow
    from pyarrow import parquet

    try:
        rows = parquet.read_table(path).to_pylist()
    except pyarrow.ArrowInvalid as error:
        raise ConfigError(f"{path}: not Parquet: {error}") from error
    for number, row in enumerate(rows, start=1):
        yield f"{path}, row {number}", row


def _hub_rows(hub_id: str, language: Language) -> Iterator[tuple[str, Mapping[str, object]]]:
    from datasets import load_dataset

    try:
        rows = load_dataset(hub_id, language, split="test")
    # The hub client raises many kinds: not found, no network, not allowed, no such split.
    except Exception as error:
        raise ConfigError(
            f"{hub_id}: can't be loaded from the hub ({type(error).__name__}: {error}); "
            "where there is no hub, set benchmark.path to a local file of it"
        ) from error
    for number, row in enumerate(rows, start=1):
        yield f"{hub_id} {language}, row {number}", row
