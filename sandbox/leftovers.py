"""Temporary folders of local sandboxes, and the removal of those whose owner was killed.

A folder is `stepinto-*` in the host's temporary folder. Its owner holds an flock on the folder
itself as long as it lives: the kernel releases it whatever the owner dies of, so no process number
is ever compared.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PREFIX = "stepinto-"


class OwnedFolder:
    """A fresh temporary folder, locked by this process until `remove`."""

    def __init__(self) -> None:
        # Locked under a name that `remove_leftovers` does not look at, then renamed.
        unlocked = Path(tempfile.mkdtemp(prefix=f".{PREFIX}"))
        self._lock = _lock(unlocked)
        self.path = unlocked.with_name(unlocked.name[1:])
        os.rename(unlocked, self.path)

    def remove(self) -> None:
        """Remove the folder with all below it; safe to call twice."""
        remove_folder(self.path)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def remove_leftovers() -> list[Path]:
    """Remove this user's sandbox folders whose owner is dead, and return them."""
    removed = []
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        lock = _lock(path)
        if lock is None:
            continue
        remove_folder(path)
        os.close(lock)
        removed.append(path)
    return removed


def remove_folder(path: Path) -> None:
    """Remove a folder even where its programs made it read-only or nested it very deep."""
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        subprocess.run(["chmod", "-R", "u+rwX", "--", path], capture_output=True, check=False)
        subprocess.run(["rm", "-rf", "--", path], capture_output=True, check=False)


def _lock(path: Path) -> int | None:
    """An exclusive lock on one's own folder; None where it is another's, or is locked."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if os.fstat(handle).st_uid == os.geteuid():
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
    except BlockingIOError:
        pass
    os.close(handle)
    return None
