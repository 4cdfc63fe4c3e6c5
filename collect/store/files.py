"""Files that appear whole or not at all, however the writing process ends; and files of records,
one JSON object on each line."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from collect.errors import ConfigError, first_wrong_field

LOCK = ".lock"
"""The file that the process holds which writes to a folder of rollouts."""
TEMPORARY = ".tmp-"
"""Prefix of unfinished files' names."""


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path to write to; the new file then replaces the target, durably on return."""
    temporary = target.with_name(f"{TEMPORARY}{target.name}")
    yield temporary
    _sync(temporary)
    temporary.rename(target)
    _sync(target.parent)


@contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """A folder to write to, which replaces the target when the block ends, and is removed if it
    raises.
    """
    temporary = target.with_name(f"{TEMPORARY}{target.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(target: Path, text: str) -> None:
    """Create or replace a text file."""
    with replacing(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


class RunText(Protocol):
    """A text of a run that grows by whole lines, such as a rollout's log."""

    def read(self) -> str | None:
        """All lines; None if there are none."""

    def add(self, text: str) -> None:
        """Append lines. Raises OSError if there is no room."""

    def replace(self, text: str | None) -> None:
        """Replace all lines, or remove them."""


@dataclass(frozen=True)
class TextFile:
    """A `RunText` in a file."""

    path: Path

    def read(self) -> str | None:
        if not self.path.exists():
            return None
        return self.path.read_text(encoding="utf-8", errors="replace")

    def add(self, text: str) -> None:
        lines = text.encode()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            end = file.tell()
            if file.write(lines) != len(lines):
                # Half a line would corrupt the next one.
                file.truncate(end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))

    def replace(self, text: str | None) -> None:
        self.path.unlink(missing_ok=True)
        if text is not None:
            self.add(text)


def locked(path: Path) -> IO[str]:
    """A file that only one process at a time can hold open.

    Raises ConfigError if another process holds it.
    """
    # A POSIX lock ends with its process in any case, and a fork does not inherit it.
    file = path.open("w")
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise ConfigError(
            f"another process is writing to {path.parent}; wait for it or stop it first"
        ) from error
    return file


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


Record = TypeVar("Record", bound=BaseModel)
SHOWN = 5
"""Wrong lines listed in a message."""


class StrictRecord(BaseModel):
    """The base of records on disk and of settings: immutable, and rejects unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def card_path(path: Path) -> Path:
    """The path of the card that says how a file of records was made."""
    return path.with_name(f"{path.name.removesuffix('.jsonl')}.card.json")


def write_lines(path: Path, records: Iterable[BaseModel], card: BaseModel) -> None:
    """Write a file of records; the card first, so that no such file is without one."""
    write_text(card_path(path), card.model_dump_json(indent=2) + "\n")
    write_text(path, "".join(f"{record.model_dump_json()}\n" for record in records))


def read_card(path: Path, card: Path, kind: type[Record]) -> Record | None:
    """The card of a finished file. None if one of them is missing, or the card can't be read."""
    if not path.is_file() or not card.is_file():
        return None
    try:
        return kind.model_validate_json(card.read_bytes())
    except ValidationError:
        return None


def read_lines(path: Path, kind: type[Record], how_to_get: str) -> list[Record]:
    """The records of a file without empty lines; `how_to_get` says what to do if it is missing.

    Lines may end in LF, CRLF or CR. Raises ConfigError naming the wrong lines and their fields.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such file; {how_to_get}") from error
    records, wrong, count = [], [], 0
    for number, line in numbered_lines(path, file):
        if number == 1 and line.lstrip().startswith("["):
            raise ConfigError(
                f"{path}: it holds a list: write one record a line, without the brackets of the "
                "list and the commas between its records"
            )
        count += 1
        try:
            records.append(kind.model_validate_json(line))
        except ValidationError as error:
            problem, told = error.errors()[0], first_wrong_field(error, kind)
            if problem["type"] == "json_invalid":
                cause = problem["ctx"]["error"]
                told = f"not JSON ({cause}): a record stands on one line of its own"
            wrong.append(f"line {number}: {told}")
    if len(wrong) == 1:
        raise ConfigError(f"{path}, {wrong[0]}; fix or remove that line")
    refuse_wrong(path, wrong, f"{len(wrong)} of {count} lines are wrong, fix or remove them")
    return records


def numbered_lines(path: Path, file: BinaryIO) -> Iterator[tuple[int, str]]:
    """The non-empty lines, numbered from 1; `path` is the file's name in messages.

    Raises ConfigError if it is not UTF-8.
    """
    with io.TextIOWrapper(file, "utf-8-sig", "surrogateescape") as lines:
        for number, line in enumerate(lines, 1):
            try:
                line.encode()
            except UnicodeEncodeError as error:
                byte = ord(line[error.start]) & 0xFF
                raise ConfigError(
                    f"{path}: not UTF-8: byte 0x{byte:02x} in line {number}; save it as UTF-8"
                ) from error
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


WORK = ".work.jsonl"
"""How the name of a file of outcomes so far ends."""


class WorkFile(Generic[Record]):
    """The outcomes so far, one per line, after a line with the settings. Thread-safe."""

    def __init__(
        self,
        output: Path,
        settings: str,
        kind: type[Record],
        key: Callable[[Record], str],
        advice: str,
    ) -> None:
        """`settings` is a hash of everything that decides the outcomes, `advice` says what it
        covers.

        Raises ConfigError if the file belongs to a run with other settings, or another process
        writes it.
        """
        name = output.name.removesuffix(".jsonl")
        self._path = output.with_name(f"{name}{WORK}")
        self._lock_path = output.with_name(f".{name}.lock")
        self._held = locked(self._lock_path)
        self._key = key
        self._lock = threading.Lock()
        self.outcomes: dict[str, Record] = {}
        heading = json.dumps({"settings": settings})
        if not self._path.is_file():
            write_text(self._path, f"{heading}\n")
            return
        first, *lines = self._path.read_bytes().split(b"\n")
        if first != heading.encode():
            raise ConfigError(f"{self._path} is of a run with {advice}")
        kept = [first]
        for line in lines:
            try:
                outcome = kind.model_validate_json(line)
            except ValidationError:
                # The last line of a run that was killed while writing, possibly cut within a
                # character.
                continue
            self.outcomes[key(outcome)] = outcome
            kept.append(line)
        with replacing(self._path) as temporary:
            temporary.write_bytes(b"\n".join([*kept, b""]))

    def add(self, outcome: Record) -> None:
        with self._lock:
            self.outcomes[self._key(outcome)] = outcome
            with self._path.open("a", encoding="utf-8") as file:
                file.write(outcome.model_dump_json() + "\n")

    def remove(self) -> None:
        """Remove the file once the finished file contains everything."""
        self._path.unlink()
        self._lock_path.unlink()
        self.close()

    def close(self) -> None:
        """Keep the file, and let other processes write it."""
        self._held.close()
