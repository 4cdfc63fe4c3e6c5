"""What the user is told beside a command's own output."""

from __future__ import annotations

import sys
from contextlib import suppress


def tell(line: str) -> None:
    """A line on standard error. Where that is gone, as with a terminal, the work goes on."""
    with suppress(OSError):
        print(f"stepinto: {line}\n", end="", file=sys.stderr, flush=True)
