"""A folder of StepInto's own in a sandbox, which is gone when it was used."""

from __future__ import annotations

import posixpath
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.base import Command, Sandbox

NAME = re.compile(r"\.stepinto-[0-9a-f]{16}\b")
"""What such folders are called: a program under test can't know the name of the next one."""


@contextmanager
def scratch_folder(sandbox: Sandbox, parent: str = "") -> Iterator[str]:
    """The path of a folder that the first file in it makes, in the workspace unless `parent` says
    otherwise. Raises SandboxError where it can't be removed."""
    folder = posixpath.join(parent, f".stepinto-{secrets.token_hex(8)}")
    try:
        yield folder
    finally:
        sandbox.run(Command(["rm", "-rf", folder]))
