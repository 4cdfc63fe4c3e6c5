"""Files that appear whole or not at all, however the writing process ends; and files of records,
one JSON object on each line.

A run folder may be someone else's, so nothing here writes through a link.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import stat
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
SETTINGS = "settings"
"""The folder of the settings of a run's rows."""
TEMPORARY = ".tmp-"
"""Prefix of unfinished files' names."""


PLAIN_NAME = re.compile(r"\w[\w.-]{0,100}", re.ASCII)
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def file_name(name: str) -> str:
    """A name that can't lead to another folder, for a text that may be of others: itself if it is
    plain, else its hash."""
    if PLAIN_NAME.fullmatch(name):
        return name
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:32]


def refuse_links(folder: Path) -> None:
    """Raise ConfigError if a link in a run's folder leads out of it, or if something there is
    neither a file nor a folder: a command would write or read what is not the run's, or wait for
    ever. The folder itself may be a link."""
    root = folder.resolve()
    for place, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = os.path.join(place, name)
            mode = os.lstat(path).st_mode
            shown = str(folder / Path(path).relative_to(root))
            if stat.S_ISLNK(mode) and not Path(path).resolve().is_relative_to(root):
                raise ConfigError(
                    f"{shown!a} is a link to {os.readlink(path)!a}, out of the run's folder, where "
                    "a command would write or read files that are not the run's; replace it by "
                    "what it leads to, or remove it. The whole folder may be a link"
                )
            if not (stat.S_ISLNK(mode) or stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
                raise ConfigError(
                    f"{shown!a} is a pipe, a socket or a device, which no run has: remove it"
                )


def regular(path: str, flags: int) -> int:
    """The `opener` of a file in a run's folder. Raises ConfigError if there is a link, a pipe or
    a device."""
    try:
        opened = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENXIO):
            raise
        raise ConfigError(f"{path} is a link or a pipe, which no run has: remove it") from error
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        raise ConfigError(f"{path} is no ordinary file, as a run has there: remove it")
    return opened


@contextmanager
def replacing(target: Path, durable: bool = True) -> Iterator[Path]:
    """A path to write to; the new file then replaces the target, durably on return."""
    temporary = target.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    os.close(os.open(temporary, NEW, 0o666))
    try:
        yield temporary
        if durable:
            _sync(temporary)
        temporary.rename(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if durable:
        _sync(target.parent)


@contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """A folder to write to, which replaces the target when the block ends, and is removed if it
    raises.
    """
    # A folder's is always the same, so that the next start removes what a kill left.
    temporary = target.with_name(f"{TEMPORARY}{target.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        if target.is_symlink():
            target.unlink()
        elif target.exists():
            shutil.rmtree(target)
        temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def write_text(target: Path, text: str, durable: bool = True) -> None:
    """Create or replace a text file."""
    with replacing(target, durable) as temporary:
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
        try:
            with open(self.path, encoding="utf-8", errors="replace", opener=regular) as file:
                return file.read()
        except FileNotFoundError:
            return None

    def add(self, text: str) -> None:
        lines = text.encode()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open(self.path, "ab", buffering=0, opener=regular) as file:
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
    file = open(path, "a", opener=regular)  # noqa: SIM115
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
        with open(self._path, "rb", opener=regular) as work:
            first, *lines = work.read().split(b"\n")
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
            with open(self._path, "a", encoding="utf-8", opener=regular) as file:
                file.write(outcome.model_dump_json() + "\n")

    def remove(self) -> None:
        """Remove the file once the finished file contains everything."""
        self._path.unlink()
        self._lock_path.unlink()
        self.close()

    def close(self) -> None:
        """Keep the file, and let other processes write it."""
        self._held.close()
