"""A git repository on this machine, to fetch from."""

from __future__ import annotations

import subprocess
from pathlib import Path

PROGRAMS = (
    *("core.fsmonitor", "core.sshCommand", "core.alternateRefsCommand", "core.pager"),
    *("uploadpack.packObjectsHook", "filter.own.smudge", "filter.own.clean", "diff.own.textconv"),
)
"""Settings of a repository that are commands."""


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

    def run_whenever_it_can(self, marker: Path) -> None:
        """Let the repository's own config name a program that writes this file, for all that git
        starts of itself."""
        program = marker.with_name("program.sh")
        program.write_text(f"#!/bin/sh\ntouch {marker}\ncat\n")
        program.chmod(0o755)
        (self.folder / ".git" / "info" / "attributes").write_text("* filter=own diff=own\n")
        for name in PROGRAMS:
            self.git("config", name, str(program))
        for name in ("post-checkout", "post-index-change", "reference-transaction"):
            (self.folder / ".git" / "hooks" / name).symlink_to(program)
