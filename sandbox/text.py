"""Text that any file and any request can hold, and the lines of source text."""

from __future__ import annotations

import io
import re


def storable(text: str) -> str:
    """The text with U+FFFD for each lone surrogate, which UTF-8 can't encode.

    They come from JSON escapes and undecodable output.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def source_lines(text: str, keepends: bool = False) -> list[str]:
    r"""The lines of a source file as Python's and Java's compilers count them.

    These end only at `\n`, `\r\n` and `\r`. `str.splitlines` also splits at form feeds, U+2028 and
    others, which would shift the numbers of later lines.
    """
    lines = io.StringIO(text, newline="").readlines()
    return lines if keepends else [line.rstrip("\r\n") for line in lines]


CUT = re.compile(r"\n\[\.\.\. \d+ bytes cut \.\.\.\]\n")
"""Marks the cut in a long output."""


class BoundedOutput:
    """A command's output: keeps the first and the last half of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._head_limit = limit // 2
        self._tail_limit = limit - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def add(self, chunk: bytes) -> None:
        self._total += len(chunk)
        room = self._head_limit - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        # Trimming only at twice the size keeps the cost linear.
        if len(self._tail) > 2 * self._tail_limit:
            del self._tail[: -self._tail_limit]

    @property
    def truncated(self) -> bool:
        return self._total > self._head_limit + self._tail_limit

    def text(self) -> str:
        """The output, decoded as UTF-8 with replacement; a line says how much was cut."""
        if not self.truncated:
            return bytes(self._head + self._tail).decode("utf-8", "replace")
        cut = self._total - self._head_limit - self._tail_limit
        head = self._head.decode("utf-8", "replace")
        tail = self._tail[-self._tail_limit :].decode("utf-8", "replace")
        return f"{head}\n[... {cut} bytes cut ...]\n{tail}"
