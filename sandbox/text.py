"""Text that any file and any request can hold, and the lines of source text."""

from __future__ import annotations

import io


def storable(text: str) -> str:
    """The text with U+FFFD for each half character (lone surrogate), which no UTF-8 can hold.

    JSON escapes and undecodable output bring them.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def source_lines(text: str, keepends: bool = False) -> list[str]:
    """The lines of a source file as Python's and Java's compilers count them.

    Those end at `\\n`, `\\r\\n` and `\\r` only. `str.splitlines` also splits at form feeds, U+2028
    and others, and so gives wrong numbers to all lines below one.
    """
    lines = io.StringIO(text, newline="").readlines()
    return lines if keepends else [line.rstrip("\r\n") for line in lines]
