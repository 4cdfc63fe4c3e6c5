"""The program's output, kept within a bound."""

from __future__ import annotations

from collections import deque
from typing import Tuple

from .wire import CONTROL


class OutputRing:
    """The head and the tail of the program's output since the last answer."""

    def __init__(self, limit: int) -> None:
        self.half = max(limit // 2, 1)
        self.clear()

    def clear(self) -> None:
        self.head = b""
        self.tail: deque[bytes] = deque()
        self.tail_size = 0
        self.cut = 0

    def add(self, data: bytes) -> None:
        room = self.half - len(self.head)
        self.head += data[:room]
        rest = data[room:] if room < len(data) else b""
        if rest:
            self.tail.append(rest)
            self.tail_size += len(rest)
        while self.tail and self.tail_size - len(self.tail[0]) >= self.half:
            dropped = len(self.tail.popleft())
            self.tail_size -= dropped
            self.cut += dropped

    def take(self) -> Tuple[str, bool]:
        """Return the text, and whether its middle was cut; then start over.

        Escapes characters that could affect a terminal.
        """
        tail = b"".join(self.tail)
        extra = max(len(tail) - self.half, 0)
        cut = self.cut + extra
        head = self.head.decode("utf-8", "replace")
        end = tail[extra:].decode("utf-8", "replace")
        self.clear()
        middle = f"\n... {cut} bytes cut ...\n" if cut else ""
        text = (head + middle + end).replace("\r\n", "\n")
        return text.translate(CONTROL), bool(cut)
