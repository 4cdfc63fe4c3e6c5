"""One build: its place, its tools, and its deadline."""

from __future__ import annotations

import posixpath
import time
from dataclasses import dataclass

from sandbox.base import Sandbox
from sandbox.java.jdk import Jdk
from sandbox.java.scan import Scan
from sandbox.shell import Captured, capture

LEAST = 1.0
"""Seconds that a tool gets at least, so that it can report its own error."""


@dataclass(frozen=True)
class BuildJob:
    """The inputs that all builders need."""

    sandbox: Sandbox
    jdk: Jdk
    scan: Scan
    """The workspace as it is being built."""
    deadline: float
    """On the clock of `time.monotonic`."""

    def run(self, script: str, *arguments: str, folder: str = ".") -> Captured:
        """Run a script of `sh` in a folder of the workspace, until the deadline at most."""
        left = max(LEAST, self.deadline - time.monotonic())
        return capture(self.sandbox, script, *arguments, cwd=self.absolute(folder), timeout=left)

    def absolute(self, path: str) -> str:
        """The absolute path, inside the sandbox, of a path relative to the workspace."""
        return posixpath.normpath(posixpath.join(self.sandbox.workspace, path))
