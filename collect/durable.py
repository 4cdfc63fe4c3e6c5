"""Files that appear whole or not at all, whatever ends the process that writes them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


def write_text(target: Path, text: str) -> None:
    """Replace a text file, or make it."""
    with replacing(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
