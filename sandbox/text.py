"""Text that any file and any request can hold."""

from __future__ import annotations


def storable(text: str) -> str:
    """The text with U+FFFD for each half character (lone surrogate), which no UTF-8 can hold.

    JSON escapes and undecodable output bring them.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
