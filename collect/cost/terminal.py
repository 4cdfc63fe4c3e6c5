"""A question to who sits at the terminal."""

from __future__ import annotations

import os
import select
import sys
import threading

from collect.models.waiting import POLL_SECONDS


def somebody_is_there() -> bool:
    """Whether this process is in the foreground of a terminal; in the background, the kernel
    would suspend it for reading there."""
    try:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return False
        return os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (AttributeError, OSError, ValueError):
        # No standard input at all, or a closed one.
        return False


def confirmed(question: str, stop: threading.Event) -> bool:
    """Ask, and wait for a line; whether it says yes. A stop is a no."""
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    while not stop.is_set():
        if select.select([sys.stdin], [], [], POLL_SECONDS)[0]:
            return sys.stdin.readline().strip().lower() in ("y", "yes")
    return False
