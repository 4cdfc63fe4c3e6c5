"""Progress of long work: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

from rich.console import Console
from rich.progress import Progress

from collect.quantities import duration

EVERY = 60.0
"""Seconds between two lines."""


class ProgressBar:
    """Counts finished items. Thread-safe. A context manager; writes to standard error."""

    def __init__(
        self,
        what: str,
        total: int,
        done_before: int = 0,
        *,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`what` names the items in the plural; earlier starts did `done_before` of the `total`."""
        self._what, self._total = what, total
        self._done = self._done_before = done_before
        self._console = console or Console(stderr=True)
        self._clock = clock
        self._lock = threading.Lock()
        self._began = self._told_at = clock()
        self._bar = Progress(console=self._console) if self._console.is_terminal else None
        if self._bar is not None:
            self._task = self._bar.add_task(what, total=total, completed=done_before)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        else:
            self._tell(self._clock())

    def advance(self) -> None:
        """One more item is done."""
        if self._bar is not None:
            self._bar.advance(self._task)
            return
        with self._lock:
            self._done += 1
            now = self._clock()
            if now - self._told_at >= EVERY and self._done < self._total:
                self._tell(now)

    def _tell(self, now: float) -> None:
        self._told_at = now
        line = f"{self._done} of {self._total} {self._what} in {duration(now - self._began)}"
        here = self._done - self._done_before
        if here and self._done < self._total:
            left = (self._total - self._done) * (now - self._began) / here
            line += f", left {duration(left)}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)
