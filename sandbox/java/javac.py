"""Compile with javac directly: projects without a build tool, and changed sources of others; reduce
any tool's failing builds to the compiler's errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sandbox.base import SOURCE_LIMIT, Sandbox
from sandbox.errors import BuildFailed, SandboxFileError
from sandbox.java.jdk import find_jdk, why_not_compiled
from sandbox.java.project import BuildJob, CompileStep, timed_out
from sandbox.shell import FOLDER, write_bytes
from sandbox.text import source_lines

MAX_ERRORS = 8
MAX_LINES = 15
"""Lines shown if a build fails for a reason other than compiler errors."""
MAX_WIDTH = 300

_JAVAC = re.compile(
    r"^(?:\[ERROR\] |(?::[\w-]++)++)?(?P<file>[^\s:][^:]*\.java):(?P<line>\d{1,9}): "
    r"error: (?P<text>.*)"
)
_MAVEN = re.compile(
    r"^\[ERROR\] (?P<file>/\S.*?\.java):\[(?P<line>\d{1,9}),\d+\] (?:error: )?(?P<text>.*)"
)
_WITHOUT_FILE = re.compile(r"(?::[\w:-]*?)?(error: .*)")
"""What javac says of its options; Gradle 4 leaves the name of its task before the first."""
_DETAIL = re.compile(
    r"^(?:\[ERROR\])?\s+(?P<name>symbol|location|required|found|reason) *: *(?P<text>.*)"
)
_MAVEN_NOISE = re.compile(
    r"\[ERROR\] *(?:$|(?:-> )?\[Help|To see the full|Re-run Maven|For more info|After correcting"
    r"|mvn <)"
)
_EXCEPTION = re.compile(r"(?:Caused by: |Exception in thread [^ ]* )?[\w.]+(?:Exception|Error): ")


@dataclass(frozen=True)
class CompilerError:
    file: str
    line: int
    text: str
    """The message, with the symbol and its location if the compiler names them."""


def shown_errors(output: str, workspace: str, source_line: Callable[[str, int], str]) -> str:
    """The errors in a build's output as text, at most a screenful. `source_line` returns a line of
    a workspace file, empty if it can't be read."""
    errors = list(dict.fromkeys(compiler_errors(output, workspace)))
    if not errors:
        return "\n".join(line[:MAX_WIDTH] for line in _reasons(output))
    shown = []
    for error in errors[:MAX_ERRORS]:
        source = source_line(error.file, error.line).strip()
        shown.append(f"{error.file}:{error.line}: {error.text}"[:MAX_WIDTH])
        shown += [f"    {source}"[:MAX_WIDTH]] if source else []
    if len(errors) > MAX_ERRORS:
        shown.append(f"... and {len(errors) - MAX_ERRORS} more errors")
    return "\n".join(shown)


def compiler_errors(output: str, workspace: str) -> Iterator[CompilerError]:
    """The errors of javac, Maven or Gradle, in order."""
    lines = output.splitlines()
    for index, line in enumerate(lines):
        match = _MAVEN.match(line) or _JAVAC.match(line)
        if match is None:
            continue
        details: list[str] = []
        for following in lines[index + 1 : index + 7]:
            if _MAVEN.match(following) or _JAVAC.match(following):
                break
            if (detail := _DETAIL.match(following)) is not None:
                told = f"{detail['name']}: {re.sub(r' +', ' ', detail['text'])}"
                details += [told] if told not in details else []
        file = match["file"].removeprefix(f"{workspace}/").removeprefix("./")
        text = "; ".join([match["text"].strip(), *details])
        yield CompilerError(file, int(match["line"]), text)


def _reasons(output: str) -> list[str]:
    """Why a build failed that did compile: messages of Gradle or Maven, else the last lines."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    gradle = next((i for i, line in enumerate(lines) if "What went wrong" in line), None)
    if gradle is not None:
        told = lines[gradle + 1 : gradle + 1 + MAX_LINES]
        end = next((i for i, line in enumerate(told) if line.startswith("* Try")), len(told))
        javac = [match[1] for line in lines[:gradle] if (match := _WITHOUT_FILE.match(line))]
        return [*javac[:MAX_ERRORS], *told[:end]]
    told = [line for line in lines if line.startswith(("[ERROR]", "[FATAL]"))]
    maven = [line for line in told if not _MAVEN_NOISE.match(line)]
    if len(maven) <= 1:
        # Maven prints "Error executing Maven", and the reason in the stack trace below it.
        maven += [line for line in lines if _EXCEPTION.match(line)]
    return maven[:MAX_LINES] or lines[-MAX_LINES:]


FAST = ("-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1")
JAVAC_ERRORS = 100
"""The limit passed to javac; fewer are shown."""

# Sources must not find an old class whose own source is gone.
_COMPILE = """
mkdir -p "$1" && find "$1" -name "*.class" -exec rm -f {} +
shift; exec "$@"
"""


def compile_sources(job: BuildJob, step: CompileStep, sources: Sequence[str]) -> None:
    """Compile all of a step's sources into its emptied output folder. Raises BuildFailed with the
    errors, SandboxError."""
    arguments = f"{FOLDER}/javac-arguments"
    words = (word.replace("\\", "\\\\").replace('"', '\\"') for word in (*step.options, *sources))
    lines = [f'"{word}"' for word in words]
    write_bytes(job.sandbox, arguments, "\n".join(lines).encode())
    argv = [job.jdk.javac, *FAST, "-Xmaxerrs", str(JAVAC_ERRORS), f"@{arguments}"]
    result = job.run(_COMPILE, step.output, *argv)
    if result.timed_out:
        raise timed_out("javac")
    if result.exit_code != 0:
        raise build_failed(job.sandbox, "javac", result.output)


def build_failed(sandbox: Sandbox, tool: str, output: str, cause: str = "") -> BuildFailed:
    """The error for a failed build, with what is needed to fix it. `cause` says what is known to be
    wrong with the build itself, if its sources are not."""

    def source_line(file: str, line: int) -> str:
        with suppress(SandboxFileError):
            text = sandbox.read_file(file, SOURCE_LIMIT).decode("utf-8", "replace")
            return "".join(source_lines(text)[line - 1 : line]) if line > 0 else ""
        return ""

    shown = shown_errors(output, sandbox.workspace, source_line)
    in_sources = any(compiler_errors(output, sandbox.workspace))
    message = f"the build failed ({tool}), so nothing can start until this is fixed:\n"
    if not in_sources:
        jdk = why_not_compiled(find_jdk(sandbox), sandbox.config.java.release)
        message += "".join(f"{reason}\n" for reason in (cause, jdk) if reason)
    return BuildFailed(message + shown, in_sources)
