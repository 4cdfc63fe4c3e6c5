"""Progress of a run: a live display on a terminal, else one line per finished rollout."""

from __future__ import annotations

import json
import os
import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from collect.config import RunnerConfig
from collect.console import VisibleConsole, visible
from collect.errors import TRIED_AGAIN, FailureKind
from collect.quantities import dollars, duration, tokens
from collect.rollout_log import NO_LOG, Fact, RolloutLog
from collect.rollouts.rollout import RolloutSpec
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
            self._count(rollout)
            line = f"{self._numbers()} | {_outcome(rollout)}"
            # Printed under the lock, so that the numbers of the lines never go back.
            if not self._console.is_terminal:
                self._print(line)
            if self._is_new(rollout):
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
            rows: list[RenderableType] = [head, Text(self._numbers())]
            if self._running:
                rows.append(self._running_table())
            return Group(*rows)

    def _count(self, rollout: Rollout) -> None:
        self.done += 1
        self._add(rollout)

    def _add(self, rollout: Rollout) -> None:
        self._resolved += rollout.resolved
        self._tampered += rollout.tampered is not None
        self._judged += rollout.failure_kind not in TRIED_AGAIN
        self._tokens += rollout.tokens
        self._dollars += rollout.dollars
        if rollout.failure_kind is not None:
            self._failures[rollout.failure_kind.value] += 1

    def _is_new(self, rollout: Rollout) -> bool:
        """Whether this is the first infrastructure failure of its kind."""
        name = rollout.failure_type
        if rollout.failure_kind is not FailureKind.INFRASTRUCTURE or name in self._told:
            return False
        self._told.add(name)
        return True

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
            parts.append(f"left {self._left()}")
        return " ".join(parts)

    def _elapsed(self) -> float:
        return self._clock() - self._started_at

    def _left(self) -> str:
        seconds = self._seconds_left()
        return "?" if seconds is None else duration(seconds)

    def _seconds_left(self) -> float | None:
        finished_now, remaining = self.done - self.done_before, self.total - self.done
        if not remaining:
            return 0.0
        return self._elapsed() / finished_now * remaining if finished_now else None

    def _running_table(self) -> Table:
        table = Table.grid(padding=(0, 2))
        oldest = sorted(self._running.values(), key=lambda entry: entry[1])
        for label, since in oldest[: self._listed]:
            table.add_row(
                "", Text(visible(label)), Text(duration(self._clock() - since), style="dim")
            )
        if len(oldest) > self._listed:
            table.add_row("", Text(f"and {len(oldest) - self._listed} more", style="dim"), "")
        return table

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


# The log of a rollout as lines of JSON, `RUN/logs/ROLLOUT_ID.jsonl`.
#
# A repeated rollout appends to its log. Lines are written in batches: at once after a pause, then
# every few seconds, because on a cluster each batch is a message. A killed worker loses its last
# lines.


FOLDER = "logs"
LOT_SECONDS = 5.0
"""Minimum seconds between two batches."""


class LogText(Protocol):
    """Where a log's lines are written."""

    def add(self, text: str) -> None:
        """Append lines, or lose them; never raises."""


@dataclass(frozen=True)
class LogFile:
    """A log in a file."""

    path: Path

    def add(self, text: str) -> None:
        """See `LogText`."""
        lines = text.encode()
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                end = file.tell()
                if file.write(lines) != len(lines):
                    # Half a line would corrupt the next one.
                    file.truncate(end)


class LinesLog:
    """See `RolloutLog`."""

    def __init__(self, text: LogText) -> None:
        self._text = text
        self._lines: list[str] = []
        self._sent_at = float("-inf")

    def note(self, event: str, **facts: Fact) -> None:
        """See `RolloutLog`."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"time": now, "event": event} | {name: _short(fact) for name, fact in facts.items()}
        self._lines.append(json.dumps(line))
        if time.monotonic() - self._sent_at >= LOT_SECONDS:
            self.flush()

    def flush(self) -> None:
        """See `RolloutLog`."""
        if self._lines:
            self._text.add("".join(f"{line}\n" for line in self._lines))
            self._lines.clear()
            self._sent_at = time.monotonic()


def _short(fact: Fact) -> Fact:
    return float(f"{fact:.6g}") if isinstance(fact, float) else fact


def log_file(folder: Path, rollout_id: str) -> LogFile:
    """The file of a rollout's log in a run's folder."""
    return LogFile(folder / FOLDER / f"{rollout_id}.jsonl")


def open_log(runner: RunnerConfig, text: LogText) -> RolloutLog:
    """The log of a rollout, if the config wants one."""
    return LinesLog(text) if runner.logs else NO_LOG


def note_begin(log: RolloutLog, spec: RolloutSpec) -> None:
    """The rollout begins, in this process."""
    log.note(
        "begun",
        instance=spec.instance.id,
        variant=spec.variant.value,
        attempt=spec.attempt,
        main=spec.main,
        sub=spec.sub,
        host=platform.node(),
        process=os.getpid(),
    )


def note_end(log: RolloutLog, row: Rollout) -> None:
    """The rollout has its row."""
    if row.failure_kind is not None:
        log.note(
            "failed",
            kind=row.failure_kind.value,
            type=row.failure_type,
            message=row.failure_message,
        )
    if row.tampered is not None:
        log.note("tampered", what=row.tampered)
    log.note("ended", resolved=row.resolved, seconds=row.seconds, dollars=row.dollars)
    log.flush()
