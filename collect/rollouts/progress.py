"""Progress of a run: a live display on a terminal, else one line per finished rollout."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from collect.console import VisibleConsole, visible
from collect.errors import TRIED_AGAIN, FailureKind
from collect.quantities import dollars, duration, tokens
from collect.store.records import Rollout

LISTED = 8
WHY_CHARACTERS = 500
"""Maximum length of a failure's message."""


class Progress:
    """Counts and shows the outcomes of a run's rollouts. Thread-safe.

    Use it as a context manager; leaving it prints a summary line. All output goes to standard
    error.
    """

    def __init__(
        self,
        total: int,
        done_before: int = 0,
        *,
        beside: int = 0,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
        listed: int = LISTED,
    ) -> None:
        """`total` counts all rollouts of the run, `done_before` those of earlier starts
        (`add_earlier` takes their rows), `beside` those in the folder that are no longer asked for.

        At most `listed` running rollouts are shown by name.
        """
        self.total = total
        self.done = done_before
        self.done_before = done_before
        self.beside = beside
        self._console = console or VisibleConsole(stderr=True)
        self._clock = clock
        self._listed = listed
        self._lock = threading.Lock()
        self._running: dict[str, tuple[str, float]] = {}
        self._resolved = self._tampered = self._judged = self._tokens = 0
        self._dollars = 0.0
        self._failures: Counter[str] = Counter()
        self._told: set[str | None] = set()
        self._started_at = clock()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self._started_at = self._clock()
        if self._console.is_terminal:
            self._live = Live(get_renderable=self.render, console=self._console, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()
            self._live = None
        self._print(self.summary())

    def started(self, rollout_id: str, label: str = "") -> None:
        """A rollout begins; `label` is its name in the display, by default its id."""
        with self._lock:
            self._running[rollout_id] = (label or rollout_id, self._clock())

    def stopped(self, rollout_id: str) -> None:
        """A rollout ended without a row, for example by Ctrl-C; it remains to be done."""
        with self._lock:
            self._running.pop(rollout_id, None)

    def add_earlier(self, rollouts: Iterable[Rollout]) -> None:
        """Count the outcomes of earlier starts, which are already in `done`."""
        with self._lock:
            for rollout in rollouts:
                self._add(rollout)

    def to_do_again(self, rollouts: int) -> None:
        """This many finished rollouts are repeated."""
        with self._lock:
            self.done -= rollouts

    def finished(self, rollout: Rollout) -> None:
        """A rollout ended with a row."""
        with self._lock:
            self._running.pop(rollout.rollout_id, None)
            self.done += 1
            self._add(rollout)
            # Printed under the lock, so that the numbers of the lines never go back.
            if not self._console.is_terminal:
                self._print(f"{self._numbers()} | {_outcome(rollout)}")
            failed = rollout.failure_kind is FailureKind.INFRASTRUCTURE
            if failed and rollout.failure_type not in self._told:
                self._told.add(rollout.failure_type)
                self._print(f"{rollout.instance_id}: {_why(rollout)}")

    def tell(self, line: str) -> None:
        """Print a line that stays above the display."""
        with self._lock:
            self._print(line)

    def running(self) -> list[tuple[str, float]]:
        """Running rollouts with their seconds, longest first."""
        with self._lock:
            oldest = sorted(self._running.values(), key=lambda entry: entry[1])
            return [(label, self._clock() - since) for label, since in oldest]

    def seconds_left(self) -> float | None:
        """Estimated from this start's rate; None before its first rollout has ended."""
        with self._lock:
            return self._seconds_left()

    @property
    def per_hour(self) -> float:
        """Rollouts per hour in this start."""
        with self._lock:
            elapsed = self._elapsed()
            return 3600 * (self.done - self.done_before) / elapsed if elapsed else 0.0

    def summary(self) -> str:
        """One line on the whole run so far."""
        with self._lock:
            return f"{self._numbers(running=False)} in {duration(self._elapsed())}"

    def render(self) -> RenderableType:
        """The content of the live display."""
        with self._lock:
            head = Table.grid(padding=(0, 2))
            bar = ProgressBar(total=max(self.total, 1), completed=self.done, width=40)
            head.add_row(bar, Text(f"elapsed {duration(self._elapsed())}"))
            running = Table.grid(padding=(0, 2))
            oldest = sorted(self._running.values(), key=lambda entry: entry[1])
            for label, since in oldest[: self._listed]:
                elapsed = Text(duration(self._clock() - since), style="dim")
                running.add_row("", Text(visible(label)), elapsed)
            if len(oldest) > self._listed:
                rest = Text(f"and {len(oldest) - self._listed} more", style="dim")
                running.add_row("", rest, "")
            return Group(head, Text(self._numbers()), *([running] if oldest else []))

    def _add(self, rollout: Rollout) -> None:
        self._resolved += rollout.resolved
        self._tampered += rollout.tampered is not None
        self._judged += rollout.failure_kind not in TRIED_AGAIN
        self._tokens += rollout.tokens
        self._dollars += rollout.dollars
        if rollout.failure_kind is not None:
            self._failures[rollout.failure_kind.value] += 1

    def _numbers(self, running: bool = True) -> str:
        """`12/72 resolved 9 (75%) failed infrastructure 1 running 2 tokens 1.2M $0.34 left 3m`."""
        parts = [f"{self.done}/{self.total}", f"resolved {self._resolved}"]
        if self._judged:
            parts.append(f"({100 * self._resolved / self._judged:.0f}%)")
        if self._tampered:
            parts.append(f"tampered {self._tampered}")
        parts += [f"failed {kind} {count}" for kind, count in sorted(self._failures.items())]
        if running:
            parts.append(f"running {len(self._running)}")
        parts += [f"tokens {tokens(self._tokens)}", dollars(self._dollars)]
        if running:
            seconds = self._seconds_left()
            parts.append(f"left {'?' if seconds is None else duration(seconds)}")
        return " ".join(parts)

    def _elapsed(self) -> float:
        return self._clock() - self._started_at

    def _seconds_left(self) -> float | None:
        finished_now, remaining = self.done - self.done_before, self.total - self.done
        if not remaining:
            return 0.0
        return self._elapsed() / finished_now * remaining if finished_now else None

    def _print(self, line: str) -> None:
        # A lost terminal must not end the rollouts.
        with suppress(OSError):
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _outcome(rollout: Rollout) -> str:
    """`ledger-cache-1 debug2fix: resolved`."""
    name = f"{rollout.instance_id} {rollout.variant}"
    if rollout.failure_kind is not None:
        return f"{name}: failed ({rollout.failure_kind}, {rollout.failure_type})"
    if rollout.tampered is not None:
        return f"{name}: tampered ({rollout.tampered})"
    return f"{name}: {'resolved' if rollout.resolved else 'not resolved'}"


def _why(rollout: Rollout) -> str:
    """The failure's type and message in one line; the last line of a traceback."""
    message = (rollout.failure_message or "").strip()
    if message.startswith("Traceback"):
        message = message.splitlines()[-1]
    else:
        message = f"{rollout.failure_type}: {message}"
    return " ".join(message.split())[:WHY_CHARACTERS]
