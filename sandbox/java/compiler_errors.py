"""Reduce a failing build's output to the compiler's errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MAX_ERRORS = 8
MAX_LINES = 15
"""Lines shown if a build fails for a reason other than compiler errors."""
MAX_WIDTH = 300

_JAVAC = re.compile(
    r"^(?:\[ERROR\] |(?::[\w-]+)+)?(?P<file>[^\s:][^:]*\.java):(?P<line>\d+): error: (?P<text>.*)"
)
_MAVEN = re.compile(
    r"^\[ERROR\] (?P<file>/\S.*?\.java):\[(?P<line>\d+),\d+\] (?:error: )?(?P<text>.*)"
)
_DETAIL = re.compile(
    r"^(?:\[ERROR\])?\s+(?P<name>symbol|location|required|found|reason) *: *(?P<text>.*)"
)
_MAVEN_NOISE = re.compile(
    r"\[ERROR\] *(?:$|(?:-> )?\[Help|To see the full|Re-run Maven|For more info|After correcting"
    r"|mvn <)"
)
_EXCEPTION = re.compile(r"(?:Caused by: )?[\w.]+(?:Exception|Error): ")


@dataclass(frozen=True)
class CompilerError:
    """One error of javac."""

    file: str
    line: int
    text: str
    """The message, with the symbol and its location if the compiler names them."""


def shown_errors(output: str, workspace: str, source_line: Callable[[str, int], str]) -> str:
    """The errors in a build's output as text, at most a screenful.

    `source_line` returns a line of a workspace file, empty if it can't be read.
    """
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
        return told[:end]
    told = [line for line in lines if line.startswith(("[ERROR]", "[FATAL]"))]
    maven = [line for line in told if not _MAVEN_NOISE.match(line)]
    if len(maven) <= 1:
        # Maven prints "Error executing Maven", and the reason in the stack trace below it.
        maven += [line for line in lines if _EXCEPTION.match(line)]
    return maven[:MAX_LINES] or lines[-MAX_LINES:]
