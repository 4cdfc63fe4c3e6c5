"""Reads JSON-lines files written by StepInto, a script or an editor."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from collect.errors import ConfigError
from collect.field_errors import first_wrong_field

Record = TypeVar("Record", bound=BaseModel)
SHOWN = 5
"""Wrong lines listed in a message."""
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
"""Byte order marks."""


def read_lines(path: Path, kind: type[Record], how_to_get: str) -> list[Record]:
    """The records of a file without empty lines; `how_to_get` says what to do if it is missing.

    Lines may end in LF, CRLF or CR. Raises ConfigError naming the wrong lines and their fields.
    """
    records, wrong, count = [], [], 0
    for number, line in _lines_of(path, how_to_get):
        count += 1
        try:
            records.append(_record(line, kind))
        except ValueError as error:
            wrong.append(f"line {number}: {error}")
    if len(wrong) == 1:
        raise ConfigError(f"{path}, {wrong[0]}; fix or remove that line")
    refuse_wrong(path, wrong, f"{len(wrong)} of {count} lines are wrong, fix or remove them")
    return records


def stream_lines(path: Path, kind: type[Record], how_to_get: str) -> Iterator[Record]:
    """Like `read_lines`, but one record at a time, up to the first wrong one."""
    for number, line in _lines_of(path, how_to_get):
        try:
            yield _record(line, kind)
        except ValueError as error:
            raise ConfigError(f"{path}, line {number}: {error}; fix or remove that line") from error


def numbered_lines(path: Path, file: BinaryIO) -> Iterator[tuple[int, str]]:
    """The non-empty lines, numbered from 1; `path` is the file's name in messages.

    Raises ConfigError if it is not UTF-8.
    """
    with io.TextIOWrapper(file, "utf-8-sig", "surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            _check_encoding(path, number, line)
            if line.strip():
                yield number, line


def refuse_wrong(path: Path, wrong: list[str], told: str) -> None:
    """Raise ConfigError listing the first few errors of a file, if there are any; `told` describes
    their number if there are several.
    """
    if len(wrong) == 1:
        raise ConfigError(f"{path}: {wrong[0]}")
    if wrong:
        more = [f"and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
        raise ConfigError("\n  ".join([f"{path}: {told}:", *wrong[:SHOWN], *more]))


def _lines_of(path: Path, how_to_get: str) -> Iterator[tuple[int, str]]:
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file; {how_to_get}") from error
    for number, line in numbered_lines(path, file):
        if number == 1 and line.lstrip().startswith("["):
            raise ConfigError(
                f"{path}: it holds a list: write one record a line, without the brackets of the "
                "list and the commas between its records"
            )
        yield number, line


def _check_encoding(path: Path, number: int, line: str) -> None:
    try:
        data = line.encode()
    except UnicodeEncodeError as error:
        byte = ord(line[error.start]) & 0xFF
        data = line.encode(errors="surrogateescape")
        if not data.startswith(UTF_16):
            raise ConfigError(
                f"{path}: not UTF-8: byte 0x{byte:02x} in line {number}; save it as UTF-8"
            ) from error
    if b"\0" in data:
        raise ConfigError(
            f"{path}: not UTF-8: it is UTF-16, as PowerShell writes; save it as UTF-8"
            if number == 1
            else f"{path}: a zero byte in line {number}: the file is torn; write it anew"
        )


def _record(line: str, kind: type[Record]) -> Record:
    """Raises ValueError with the reason."""
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        (problem, *_) = error.errors()
        if problem["type"] == "json_invalid":
            cause = problem["ctx"]["error"]
            raise ValueError(
                f"not JSON ({cause}): a record stands on one line of its own"
            ) from error
        raise ValueError(first_wrong_field(error, kind)) from error


# The base of all records on disk.


class StrictRecord(BaseModel):
    """An immutable record that rejects unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)
