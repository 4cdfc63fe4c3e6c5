"""Whether a run folder has all that its copy was ever given.

A driver that is going to write to a copy leaves a mark of its own there, once the mark is noted in
its run folder. A folder that does not know the mark of its copy lacks what another driver has done
since, on a folder that was fetched.
"""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from collect.copying.folder import Folder
from collect.store.atomic_files import write_text

MARK = ".mark"
"""In the copy: of the driver that wrote there last."""
KNOWN = ".marks"
"""In the run folder: of all drivers whose work it has, a line each."""


def mark_of(copy: Folder) -> str | None:
    """None where no driver has written there. Raises OSError."""
    text = copy.read(MARK)
    return text.decode().strip() if text is not None else None


def knows(run: Path, mark: str | None) -> bool:
    """Whether the folder has what the driver of a mark has done."""
    return mark is not None and mark in _known(run)


def learn(run: Path, mark: str | None) -> None:
    """The folder is now what the copy of that mark is."""
    write_text(run / KNOWN, f"{mark}\n" if mark is not None else "")


def leave_mark(copy: Folder, run: Path) -> None:
    """Write to the copy from now on, out of this folder. Raises OSError."""
    mark = uuid4().hex
    run.mkdir(parents=True, exist_ok=True)
    write_text(run / KNOWN, "".join(f"{each}\n" for each in (*_known(run), mark)))
    copy.write(MARK, mark.encode())


def _known(run: Path) -> list[str]:
    path = run / KNOWN
    return path.read_text(encoding="utf-8").split() if path.is_file() else []
