"""Folders on disk as trees of files."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from collect.errors import ConfigError

LEFT_OUT = frozenset(
    {
        *("__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"),
        *(".git", ".hg", ".tox", ".nox", ".venv", "venv", "node_modules", ".eggs"),
    }
)
"""Folders that hold nothing of a project's own."""
MEGABYTE = 1024 * 1024


class TreeTooLarge(ConfigError):
    """A folder holds more than is taken as one tree."""

    def __init__(self, place: Path, max_mb: int) -> None:
        super().__init__(f"{place}: more than {max_mb} MB of files")


def read_folder(
    folder: Path, left_out: Collection[str] = LEFT_OUT, max_mb: int | None = None
) -> dict[str, bytes]:
    """Every regular file, by its path relative to the folder, without what lies in folders of
    these names. Links are left out, for they may lead elsewhere.

    Raises TreeTooLarge if there are more than `max_mb` megabytes, before it reads any, and
    ConfigError for a name that is not UTF-8.
    """
    paths = {path.relative_to(folder).as_posix(): path for path in _paths(folder, left_out)}
    for name in paths:
        if not _is_utf_8(name):
            raise ConfigError(f"{folder}: the name of {name!a} is not UTF-8: rename the file")
    if max_mb is not None:
        size = sum(path.stat().st_size for path in paths.values())
        if size > max_mb * MEGABYTE:
            raise TreeTooLarge(folder, max_mb)
    return {name: path.read_bytes() for name, path in paths.items()}


def folder_below(root: Path, named: str) -> Path:
    """The folder that a record names, relative to `root`, with links followed.

    Raises ConfigError if it lies elsewhere: a record could name any folder of this machine, whose
    files would then be sent to models.
    """
    root = root.resolve()
    folder = (root / named).resolve()
    if not folder.is_relative_to(root):
        raise ConfigError(
            f"{named} is not below {root}: move or copy the repository there, and name it relative "
            "to that folder"
        )
    if not folder.is_dir():
        raise ConfigError(f"no such folder: {folder}; a name is relative to {root}")
    return folder


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a tree's files into a folder, which is made where it is missing."""
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _is_utf_8(name: str) -> bool:
    """Whether a name that the system gave can be kept as text."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _paths(folder: Path, left_out: Collection[str]) -> Iterator[Path]:
    """Of the files, in an order that is the same everywhere."""
    paths = []
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in left_out]
        paths += [Path(root, name) for name in names if name not in left_out]
    for path in sorted(paths):
        if path.is_file() and not path.is_symlink():
            yield path
