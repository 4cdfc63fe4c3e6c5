"""Compile with javac directly: projects without a build tool, and changed sources of others."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from sandbox.base import SOURCE_LIMIT, Sandbox
from sandbox.errors import SandboxFileError
from sandbox.java.compiler_errors import compiler_errors, shown_errors
from sandbox.java.errors import BuildFailed, BuildTimedOut
from sandbox.java.job import BuildJob
from sandbox.java.project import CompileStep
from sandbox.shell import FOLDER, write_bytes
from sandbox.text import source_lines

FAST = ("-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1")
MAX_ERRORS = 100
"""The limit passed to javac; fewer are shown."""

# Sources must not find an old class whose own source is gone.
_COMPILE = """
mkdir -p "$1" && find "$1" -name "*.class" -exec rm -f {} +
shift; exec "$@"
"""


def compile_sources(job: BuildJob, step: CompileStep, sources: Sequence[str]) -> None:
    """Compile all of a step's sources into its emptied output folder.

    Raises BuildFailed with the errors, SandboxError.
    """
    arguments = f"{FOLDER}/javac-arguments"
    lines = [_quoted(word) for word in (*step.options, *sources)]
    write_bytes(job.sandbox, arguments, "\n".join(lines).encode())
    argv = [job.jdk.javac, *FAST, "-Xmaxerrs", str(MAX_ERRORS), f"@{arguments}"]
    result = job.run(_COMPILE, step.output, *argv)
    if result.timed_out:
        raise timed_out("javac")
    if result.exit_code != 0:
        raise build_failed(job.sandbox, "javac", result.output)


def timed_out(tool: str) -> BuildTimedOut:
    """The error for a build that ran out of time."""
    return BuildTimedOut(
        f"the build failed: `{tool}` was still at it at the time-out (DebugLimits.build_timeout)"
    )


def build_failed(sandbox: Sandbox, tool: str, output: str) -> BuildFailed:
    """The error for a failed build, with what is needed to fix it."""
    shown = shown_errors(output, sandbox.workspace, _SourceLines(sandbox).get)
    found = next(compiler_errors(output, sandbox.workspace), None)
    message = f"the build failed ({tool}); fix this, then start again:\n{shown}"
    return BuildFailed(message, in_sources=found is not None)


def _quoted(word: str) -> str:
    """Quote a word for javac's argument files."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class _SourceLines:
    """Reads lines of the workspace's files, each file once."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._files: dict[str, list[str]] = {}

    def get(self, file: str, line: int) -> str:
        if file not in self._files:
            try:
                text = self._sandbox.read_file(file, SOURCE_LIMIT).decode("utf-8", "replace")
            except SandboxFileError:
                text = ""
            self._files[file] = source_lines(text)
        lines = self._files[file]
        return lines[line - 1] if 0 < line <= len(lines) else ""


def split_options(text: str) -> list[str]:
    """Split a JVM's or a compiler's option text into words."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
