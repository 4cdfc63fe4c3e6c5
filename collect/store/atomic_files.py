"""Files that appear completely or not at all, however the writing process ends."""

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
