"""Run shell scripts in a sandbox with their whole output, and keep StepInto's own files there."""

from __future__ import annotations

import posixpath
import re
import secrets
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox.base import Command, CommandResult, Sandbox
from sandbox.errors import SandboxFileError

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


FOLDER = "/tmp/stepinto"
"""The folder inside a sandbox for StepInto's own files."""

WHOLE = 64 * 1024 * 1024
"""Most bytes of a script's output."""
NO_FOLDER = 125
"""Exit code of a script that can't write below `FOLDER`, after mkdir's message."""


def capture(
    sandbox: Sandbox,
    script: str,
    *arguments: str,
    cwd: str | None = None,
    timeout: float | None = None,
) -> CommandResult:
    """Run a script of `sh`, with `FOLDER` as `$0`, and keep its output beyond the sandbox's limit.

    Raises SandboxDead, and SandboxFileError if it prints too much. Past its time-out, a script's
    output may be cut.
    """
    argv = ["sh", "-c", f'mkdir -p "$0" || exit {NO_FOLDER}\n{script}', FOLDER, *arguments]
    result = sandbox.run(Command(argv, cwd=cwd, timeout=timeout, output_limit=WHOLE))
    if result.exit_code == NO_FOLDER and result.output.startswith("mkdir:"):
        raise SandboxFileError(f"a script can't write below {FOLDER}: {result.output.strip()}")
    if result.truncated and not result.timed_out:
        raise SandboxFileError(f"a script printed more than {WHOLE} bytes")
    return result


def write_bytes(sandbox: Sandbox, path: str, data: bytes) -> None:
    """Write a file of the sandbox outside its workspace atomically.

    Raises SandboxFileError.
    """
    script = 'mkdir -p "$(dirname "$0")" && cat >"$0.$1" && mv -f "$0.$1" "$0"'
    argv = ["sh", "-c", script, path, secrets.token_hex(6)]
    result = sandbox.run(Command(argv, stdin=data))
    if result.exit_code != 0:
        raise SandboxFileError(f"can't write {path!r}: {result.output.strip()}")


def split_words(text: str) -> list[str]:
    """Split a command line into words as a shell does, or at spaces if its quotes don't match."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
