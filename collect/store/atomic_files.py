"""Files that appear whole or not at all, whatever ends the process that writes them."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from collect.errors import ConfigError

TEMPORARY = ".tmp-"
"""How the name of a file that is not finished begins."""


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path to write to; what was written there takes the target's place, durable on return."""
    temporary = target.with_name(f"{TEMPORARY}{target.name}")
    yield temporary
    _sync(temporary)
    temporary.rename(target)
    _sync(target.parent)


@contextmanager
def replacing_folder(target: Path) -> Iterator[Path]:
    """A folder to write to, which takes the target's place when the block ends, and vanishes where
    it raises."""
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
    """Replace a text file, or make it."""
    with replacing(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def locked(path: Path) -> IO[str]:
    """A file that one process at a time has open, until it closes it.

    Raises ConfigError where another process has.
    """
    # A POSIX lock is gone with its process, however that ended, and is not inherited by a fork.
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
