"""From text to logical lines: comments removed, continuation lines joined."""

from __future__ import annotations

from typing import Iterator, Tuple


def strip_comment(line: str) -> str:
    """The line up to a `#` outside of quotes. A backslash in quotes escapes what follows."""
    quote = ""
    escaped = False
    for position, char in enumerate(line):
        if escaped:
            escaped = False
        elif quote:
            if char == "\\":
                escaped = True
            elif char == quote:
                quote = ""
        elif char in "\"'":
            quote = char
        elif char == "#":
            return line[:position].rstrip()
    return line.rstrip()


def logical_lines(text: str) -> Iterator[Tuple[int, str]]:
    """(number, line) of each line that says something.

    A line that ends in a backslash goes on in the next one. The number is that of its first line.
    """
    pending = ""
    begin = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = strip_comment(raw)
        if not pending:
            begin = number
        if line.endswith("\\"):
            pending += line[:-1].rstrip() + " "
            continue
        line = (pending + line.strip()).strip()
        pending = ""
        if line:
            yield begin, line
    if pending.strip():
        yield begin, pending.strip()
