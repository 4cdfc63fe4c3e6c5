"""Progress on standard error: of a run's rollouts, and of other long work."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import MofNCompleteColumn
from rich.progress import Progress as Bar
from rich.progress_bar import ProgressBar as PlainBar
from rich.table import Table
from rich.text import Text

from collect.console import VisibleConsole, visible
from collect.errors import TRIED_AGAIN, FailureKind
from collect.quantities import dollars, duration, tokens
from collect.store.records import Rollout

LISTED = 8
"""Running rollouts that are shown by name."""
WHY_CHARACTERS = 500
"""Maximum length of a failure's message."""
FAILED, OF_TYPE = "failed ", "failed/"
EVERY = 60.0
"""Seconds between two bars if there is no terminal."""


class Progress:
    """Counts and shows the outcomes of a run's rollouts: a live display on a terminal, else a line
    per rollout. Thread-safe. Use it as a context manager; leaving it prints a summary line."""

    def __init__(
        self,
        total: int,
        done_before: int = 0,
        *,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`total` counts all rollouts of the run, `done_before` those of earlier starts
        (`add_earlier` takes their rows)."""
        self.total, self.done, self._done_before = total, done_before, done_before
        self._console, self._clock = console or VisibleConsole(stderr=True), clock
        self._lock = threading.RLock()
        self._running: dict[str, tuple[str, float]] = {}
        self._counted: dict[str, dict[str, float]] = {}
        """What each rollout adds to the totals. A repeated rollout counts once."""
        self._totals = defaultdict[str, float](float)
        self._told: set[str | None] = set()
        self._started_at = clock()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self._started_at = self._clock()
        if self._console.is_terminal:
            self._live = Live(get_renderable=self.render, console=self._console, transient=True)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            with suppress(OSError):
                self._live.stop()
            self._live = None
        with self._lock:
            self._print(f"{self.numbers(running=False)} in {duration(self._elapsed())}")

    def started(self, rollout_id: str, label: str = "") -> None:
        """A rollout begins; `label` is its name in the display, by default its id."""
        with self._lock:
            self._running[rollout_id] = (label or rollout_id, self._clock())

    def stopped(self, rollout_id: str) -> None:
        """A rollout ended without a row, for example by Ctrl-C; it remains to be done."""
        with self._lock:
            self._running.pop(rollout_id, None)

    def add_earlier(self, rollouts: Iterable[Rollout]) -> None:
        """Count the outcomes of earlier starts; those that are done are already in `done`."""
        with self._lock:
            for rollout in rollouts:
                self._add(rollout)

    def to_do_again(self, rollouts: int) -> None:
        """This many finished rollouts are repeated."""
        with self._lock:
            self.done -= rollouts

    def finished(self, rollout: Rollout) -> None:
        """A rollout ended with a row."""
        outcome = "resolved" if rollout.resolved else "not resolved"
        if rollout.failure_kind is not None:
            outcome = f"failed ({rollout.failure_kind}, {rollout.failure_type})"
        elif rollout.tampered is not None:
            outcome = f"tampered ({rollout.tampered})"
        bug, kind = rollout.instance_id, rollout.failure_type
        with self._lock:
            self._running.pop(rollout.rollout_id, None)
            self.done += 1
            self._add(rollout)
            # Printed under the lock, so that the numbers of the lines never go back.
            if not self._console.is_terminal:
                self._print(f"{self.numbers()} | {bug} {rollout.variant}: {outcome}")
            failed = rollout.failure_kind is FailureKind.INFRASTRUCTURE
            if failed and kind not in self._told:
                self._told.add(kind)
                # The type and the message; of a traceback its last line, which has both.
                why = (rollout.failure_message or "").strip()
                why = why.splitlines()[-1] if why.startswith("Traceback") else f"{kind}: {why}"
                self._print(f"{bug}: {' '.join(why.split())[:WHY_CHARACTERS]}")

    def tell(self, line: str) -> None:
        """Print a line that stays above the display."""
        with self._lock:
            self._print(line)

    def running(self) -> list[tuple[str, float]]:
        """Running rollouts with their seconds, longest first."""
        with self._lock:
            now = self._clock()
            seconds = [(label, now - since) for label, since in self._running.values()]
        return sorted(seconds, key=lambda each: -each[1])

    def seconds_left(self) -> float | None:
        """Estimated from this start's rate; None before its first rollout has ended."""
        with self._lock:
            finished_now, remaining = self.done - self._done_before, self.total - self.done
            if not remaining:
                return 0.0
            return self._elapsed() / finished_now * remaining if finished_now else None

    def metrics(self) -> dict[str, float]:
        """All numbers by name. Failure types that no longer occur are 0, so that their curves
        end."""
        with self._lock:
            elapsed, totals = self._elapsed(), self._totals
            hourly = 3600 * (self.done - self._done_before) / elapsed if elapsed else 0.0
            numbers = {name: totals[name] for name in sorted(totals) if name.startswith(OF_TYPE)}
            numbers |= {
                "rollouts/done": self.done,
                "rollouts/total": self.total,
                "rollouts/running": len(self._running),
                "rollouts/per_hour": hourly,
                "rollouts/resolved": totals["resolved"],
                "tokens": totals["tokens"],
                "dollars": totals["dollars"],
            }
            if totals["judged"]:
                numbers["rollouts/resolved_share"] = totals["resolved"] / totals["judged"]
            return numbers

    def render(self) -> RenderableType:
        """The content of the live display."""
        with self._lock:
            head, table = Table.grid(padding=(0, 2)), Table.grid(padding=(0, 2))
            bar = PlainBar(total=max(self.total, 1), completed=self.done, width=40)
            head.add_row(bar, Text(f"elapsed {duration(self._elapsed())}"))
            running = self.running()
            for label, seconds in running[:LISTED]:
                table.add_row("", Text(visible(label)), Text(duration(seconds), style="dim"))
            if len(running) > LISTED:
                table.add_row("", Text(f"and {len(running) - LISTED} more", style="dim"), "")
            return Group(head, Text(self.numbers()), *([table] if running else []))

    def _add(self, rollout: Rollout) -> None:
        counts: dict[str, float] = {
            "resolved": rollout.resolved,
            "tampered": rollout.tampered is not None,
            "judged": rollout.failure_kind not in TRIED_AGAIN,
            "tokens": rollout.tokens,
            "dollars": rollout.dollars,
        }
        if rollout.failure_kind is not None:
            counts |= {f"{FAILED}{rollout.failure_kind}": 1, f"{OF_TYPE}{rollout.failure_type}": 1}
        for name, count in self._counted.get(rollout.rollout_id, {}).items():
            self._totals[name] -= count
        for name, count in counts.items():
            self._totals[name] += count
        self._counted[rollout.rollout_id] = counts

    def numbers(self, running: bool = True) -> str:
        """`12/72 resolved 9 (75%) failed infrastructure 1 running 2 tokens 1.2M $0.34 left 3m`."""
        with self._lock:
            totals, seconds = self._totals, self.seconds_left()
            parts = [f"{self.done}/{self.total}", f"resolved {totals['resolved']:.0f}"]
            if totals["judged"]:
                parts.append(f"({100 * totals['resolved'] / totals['judged']:.0f}%)")
            if totals["tampered"]:
                parts.append(f"tampered {totals['tampered']:.0f}")
            failures = sorted(name for name in totals if name.startswith(FAILED) and totals[name])
            parts += [f"{name} {totals[name]:.0f}" for name in failures]
            if running:
                parts.append(f"running {len(self._running)}")
            parts += [f"tokens {tokens(totals['tokens'])}", dollars(max(0.0, totals["dollars"]))]
            if running:
                parts.append(f"left {'?' if seconds is None else duration(seconds)}")
            return " ".join(parts)

    def _elapsed(self) -> float:
        return self._clock() - self._started_at

    def _print(self, line: str) -> None:
        # A lost terminal must not end the rollouts.
        with suppress(OSError):
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class ProgressBar:
    """A bar of finished items, which is drawn anew now and then if there is no terminal.
    Thread-safe. A context manager."""

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
        columns = (*Bar.get_default_columns(), MofNCompleteColumn())
        self._bar = Bar(*columns, console=console or Console(stderr=True), get_time=clock)
        self._task = self._bar.add_task(what, total=total, completed=done_before)
        self._clock, self._drawn_at = clock, clock()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def advance(self) -> None:
        """One more item is done."""
        self._bar.advance(self._task)
        with self._lock:
            if not self._bar.console.is_terminal and self._clock() - self._drawn_at >= EVERY:
                self._drawn_at = self._clock()
                self._bar.console.print(self._bar)
