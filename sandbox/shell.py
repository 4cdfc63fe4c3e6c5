"""Run shell scripts in a sandbox with their whole output, and keep StepInto's own files there."""

from __future__ import annotations

import posixpath
import re
import secrets
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

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

_CAPTURE = """
mkdir -p "$0" || exit 125
folder=$0; file=$folder/$1; limit=$2; script=$3; shift 3
sh -c "$script" "$folder" "$@" >"$file" 2>&1
code=$?
size=$(wc -c <"$file")
echo "$code" "$size"
[ "$size" -gt "$limit" ] || { cat "$file"; rm -f "$file"; }
exit 0
"""
_MARGIN = 200
"""Bytes of a command's output kept for the line with the exit code and the size."""


def capture(
    sandbox: Sandbox,
    script: str,
    *arguments: str,
    cwd: str | None = None,
    timeout: float | None = None,
) -> CommandResult:
    """Run a script of `sh`, with `FOLDER` as `$0`, and capture output beyond the sandbox's limit,
    unless it is killed at its time-out.

    Raises SandboxDead, and SandboxFileError if the output can't be read back.
    """
    name = f"output-{secrets.token_hex(6)}"
    limit = sandbox.config.output_limit - _MARGIN
    argv = ["sh", "-c", _CAPTURE, FOLDER, name, str(limit), script, *arguments]
    result = sandbox.run(Command(argv, cwd=cwd, timeout=timeout))
    if result.timed_out:
        return result
    first, _, output = result.output.partition("\n")
    numbers = first.split()
    if result.exit_code != 0 or len(numbers) != 2:
        raise SandboxFileError(f"a script can't write below {FOLDER}: {result.output.strip()}")
    code, size = map(int, numbers)
    if size > limit:
        output = sandbox.read_file(f"{FOLDER}/{name}").decode("utf-8", "replace")
        sandbox.run(Command(["rm", "-f", f"{FOLDER}/{name}"]))
    return replace(result, exit_code=code, output=output)


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
