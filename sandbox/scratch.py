"""A temporary folder of StepInto's in a sandbox."""

from __future__ import annotations

import posixpath
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.base import Command, Sandbox

NAME = re.compile(r"\.stepinto-[0-9a-f]{16}\b")
"""Names are random, so that a program under test can't guess the next one."""


@contextmanager
def scratch_folder(sandbox: Sandbox, parent: str = "") -> Iterator[str]:
    """The path of a folder that is created by its first file, in the workspace unless `parent` is
    given, and removed at the end. Raises SandboxError if it can't be removed."""
    folder = posixpath.join(parent, f".stepinto-{secrets.token_hex(8)}")
    try:
        yield folder
    finally:
        sandbox.run(Command(["rm", "-rf", folder]))
