"""What the user is told beside a command's own output."""

from __future__ import annotations

import sys
from contextlib import suppress

from collect.visible import visible


def tell(line: str) -> None:
    """A line on standard error. Where that is gone, as with a terminal, the work goes on.

    What a server or a program said in it steers no terminal.
    """
    with suppress(OSError):
        print(f"stepinto: {visible(line)}\n", end="", file=sys.stderr, flush=True)
