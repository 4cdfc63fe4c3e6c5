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


def read_folder(
    folder: Path, left_out: Collection[str] = LEFT_OUT, max_mb: int | None = None
) -> dict[str, bytes]:
    """Every regular file, by its path relative to the folder, without what lies in folders of
    these names. Links are left out, for they may lead elsewhere.

    Raises TreeTooLarge as soon as there are more than `max_mb` megabytes.
    """
    files: dict[str, bytes] = {}
    size = 0
    for path in _paths(folder, left_out):
        size += path.stat().st_size
        if max_mb is not None and size > max_mb * MEGABYTE:
            raise TreeTooLarge(
                f"{folder}: more than {max_mb} MB of files; raise max_tree_mb, or name a smaller "
                "folder"
            )
        files[path.relative_to(folder).as_posix()] = path.read_bytes()
    return files


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a tree's files into a folder, which is made where it is missing."""
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)


def _paths(folder: Path, left_out: Collection[str]) -> Iterator[Path]:
    """Of the files, in an order that is the same everywhere."""
    paths = []
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in left_out]
        paths += [Path(root, name) for name in names if name not in left_out]
    for path in sorted(paths):
        if path.is_file() and not path.is_symlink():
            yield path
