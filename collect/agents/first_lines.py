"""The first lines that a command prints, and how many there are: never what a sandbox cuts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sandbox import Sandbox
from sandbox.shell import capture

MAX_LINE_BYTES = 2_000
_ENDING = re.compile(r"!exit (\d+)")
MAX_MESSAGES = 20
# Lines get a mark, which tells them from their number.
_SCRIPT = r"""
limit=$1 width=$2 order=$3; shift 3
messages=$(mktemp "$0/messages-XXXXXX") || exit 125
{ "$@" 2>"$messages"; printf '\nexit %s\n' $? >>"$messages"; } |
    LC_ALL=C "$order" | cut -b "1-$width" | sed -n -e "1,${limit}s/^/:/p" -e '$='
sed 's/^/!/' "$messages"
rm -f "$messages"
"""


@dataclass(frozen=True)
class FirstLines:
    """What a command printed."""

    lines: Sequence[str]
    """The first ones, each cut after MAX_LINE_BYTES."""
    total: int
    """Of all lines."""
    exit_code: int
    messages: Sequence[str] = ()
    """What it wrote to standard error."""


def first_lines(
    sandbox: Sandbox, argv: Sequence[str], limit: int, order: Literal["cat", "sort"] = "cat"
) -> FirstLines:
    """Run a command for at most so many of its lines, as they come or sorted.

    Raises SandboxDead, SandboxFileError.
    """
    ran = capture(sandbox, _SCRIPT, str(limit), str(MAX_LINE_BYTES), order, *argv)
    if ran.timed_out:
        seconds = sandbox.config.command_timeout
        return FirstLines((), 0, ran.exit_code, [f"it took more than {seconds:g} s"])
    lines, messages, total, exit_code = [], [], 0, ran.exit_code
    for line in ran.output.split("\n"):
        if line.startswith(":"):
            lines.append(line[1:].removesuffix("\r"))
        elif found := _ENDING.fullmatch(line):
            exit_code = int(found[1])
        elif line.isdecimal():
            total = int(line)
        elif line.removeprefix("!"):
            messages.append(line.removeprefix("!"))
    return FirstLines(lines, total, exit_code, bounded(messages, MAX_MESSAGES, "messages"))


def bounded(lines: Sequence[str], limit: int, what: str, total: int | None = None) -> list[str]:
    """At most so many lines, and one that says how many more there are of all."""
    more = (len(lines) if total is None else total) - limit
    return [*lines[:limit], *([f"[{more} more {what}; narrow the search]"] if more > 0 else [])]
