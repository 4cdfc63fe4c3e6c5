"""Folders on disk as trees of files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

CACHES = frozenset({"__pycache__", ".pytest_cache"})
LEFT_OUT = CACHES | {
    *(".git", ".hg", ".mypy_cache", ".ruff_cache", ".tox", ".nox", ".venv", "venv"),
    *("node_modules", ".eggs", ".hypothesis"),
}
"""Folders that hold nothing of a project's own."""


def read_folder(folder: Path, left_out: Collection[str] = LEFT_OUT) -> dict[str, bytes]:
    """Every regular file, by its path relative to the folder, without what lies in folders of
    these names. Links are left out, for they may lead elsewhere."""
    paths = [path.relative_to(folder) for path in sorted(folder.rglob("*"))]
    return {
        path.as_posix(): (folder / path).read_bytes()
        for path in paths
        if not set(left_out) & set(path.parts)
        and (folder / path).is_file()
        and not (folder / path).is_symlink()
    }


def write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a tree's files into a folder, which is made where it is missing."""
    for path, data in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
