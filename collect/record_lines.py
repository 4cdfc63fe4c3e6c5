"""Files with one JSON record a line, as StepInto writes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from collect.errors import ConfigError
from collect.wrong_fields import first_wrong_field

Record = TypeVar("Record", bound=BaseModel)


def read_lines(path: Path, kind: type[Record], how_to_get: str) -> list[Record]:
    """The records of a file, empty lines left out; `how_to_get` says what to do where it is
    missing. Raises ConfigError naming the line and the field."""
    return list(stream_lines(path, kind, how_to_get))


def stream_lines(path: Path, kind: type[Record], how_to_get: str) -> Iterator[Record]:
    """What `read_lines` gives, one record at a time."""
    try:
        with path.open(encoding="utf-8", newline="\n") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _record(path, number, line, kind)
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file; {how_to_get}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8: {error}") from error


def _record(path: Path, number: int, line: str, kind: type[Record]) -> Record:
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        raise ConfigError(f"{path}, line {number}: {first_wrong_field(error, kind)}") from error
