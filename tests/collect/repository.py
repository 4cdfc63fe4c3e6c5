"""A git repository on this machine, to fetch from."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Repository:
    """A folder with a repository, whose branch is `trunk`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.git("init", "-q", "-b", "trunk")

    @property
    def url(self) -> str:
        return f"file://{self.folder}"

    def git(self, *arguments: str) -> str:
        """What git prints."""
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        command = ["git", "-C", str(self.folder), *identity, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, **files: str) -> str:
        """Commit all there is, and modules of these names; the commit's hash."""
        for name, text in files.items():
            (self.folder / f"{name}.py").write_text(text)
        self.git("add", "-A")
        self.git("commit", "-qm", "Change")
        return self.git("rev-parse", "HEAD")
