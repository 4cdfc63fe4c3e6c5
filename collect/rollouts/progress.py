"""Progress on standard error: of a run's rollouts, and of other long work."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import MofNCompleteColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.progress_bar import ProgressBar as PlainBar
from rich.table import Table
from rich.text import Text

from collect.console import VisibleConsole, visible
from collect.errors import TRIED_AGAIN, FailureKind
from collect.quantities import dollars, duration, tokens
from collect.store.records import Role, Rollout

LISTED = 8
"""Running rollouts that are shown by name."""
WHY_CHARACTERS = 500
"""Maximum length of a failure's message."""
FAILED, OF_TYPE = "failed ", "failed/"
EVERY = 30.0
"""Seconds between two bars, or from one line to the next, if there is no terminal."""
FOLLOWED_EVERY = 1.0
"""Seconds between two looks at the logs of running rollouts."""
AFTER_A_REPLY = {Role.MAIN: "tests", Role.PATCH_CODER: "tests", Role.INSPECTOR: "debugger"}
"""What a rollout waits for after a reply without a call; others give their answer to a model."""


class Activity:
    """What a running rollout does, by the lines that its log gains."""

    def __init__(self, log: Path | None) -> None:
        """None: nothing is known."""
        self._log, self._step, self._waits, self._at = log, "", "sandbox", ""
        # Lines of earlier starts are of other attempts.
        self._read = log.stat().st_size if log is not None and log.is_file() else 0
        self.tokens, self.dollars = 0.0, 0.0

    def __str__(self) -> str:
        waits = f"waits for {self._waits}" if self._log is not None else ""
        return ", ".join(filter(None, (self._step, waits, self._at)))

    def follow(self) -> None:
        """Read what is new. A log that can't be read tells nothing."""
        if self._log is None:
            return
        with suppress(OSError, ValueError, KeyError), self._log.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if line.endswith(b"\n"):
                    self._read += len(line)
                    self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        kind = event["event"]
        if kind in ("sandbox_opened", "tool_called"):
            self._waits = "model"
        if kind == "replied":
            self.tokens += event["prompt_tokens"] + event["completion_tokens"]
            self.dollars += event["dollars"]
            role, call = Role(event["role"]), event["call"]
            self._step = f"{role} step {event['step'] + 1} of {event['max_steps']}"
            self._waits = "sandbox"
            if call is None:
                self._waits = AFTER_A_REPLY.get(role, "model")
            elif call == "debug_subagent":
                self._waits = "model"
            elif role is Role.INSPECTOR or call.startswith("debug_"):
                self._waits = "debugger"
        elif "stopped_at" in event:
            self._at = f"stopped at {event['stopped_at']}"
        elif kind == "debug_ended":
            self._at = ""


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
        self._running: dict[str, tuple[str, float, Activity]] = {}
        """Label, start and activity of each."""
        self._counted: dict[str, dict[str, float]] = {}
        """What each rollout adds to the totals. A repeated rollout counts once."""
        self._totals = defaultdict[str, float](float)
        self._told: set[str | None] = set()
        self._started_at = self._printed_at = clock()
        self._followed_at = 0.0
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

    def started(self, rollout_id: str, label: str = "", log: Path | None = None) -> None:
        """A rollout begins; `label` is its name in the display, by default its id, and `log` what
        it writes while it runs."""
        with self._lock:
            self._running[rollout_id] = (label or rollout_id, self._clock(), Activity(log))

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
        bug, kind, key = rollout.instance_id, rollout.failure_type, rollout.rollout_id
        with self._lock:
            label = self._running.pop(key)[0] if key in self._running else key
            label = f"{bug} {rollout.variant}" if label == key else label
            self.done += 1
            self._add(rollout)
            # Printed under the lock, so that the numbers of the lines never go back.
            if not self._console.is_terminal:
                self._print(f"{self.numbers()} | {label}: {outcome}")
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

    def tell_running(self) -> None:
        """If there is no terminal and no line came for a while, print one of the rollout that runs
        longest."""
        with self._lock:
            silent = self._clock() - self._printed_at >= EVERY
            if silent and self._running and not self._console.is_terminal:
                label, seconds = self.running()[0]
                self._print(f"{self.numbers()} | {label}, {duration(seconds)}")

    def running(self) -> list[tuple[str, float]]:
        """Running rollouts and what they do, with their seconds, longest first."""
        with self._lock:
            self._follow()
            now = self._clock()
            seconds = [
                (": ".join(filter(None, (label, str(activity)))), now - since)
                for label, since, activity in self._running.values()
            ]
        return sorted(seconds, key=lambda each: -each[1])

    def _follow(self) -> None:
        if self._clock() - self._followed_at >= FOLLOWED_EVERY:
            self._followed_at = self._clock()
            for _, _, activity in self._running.values():
                activity.follow()

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
            self._follow()
            totals, seconds = self._totals, self.seconds_left()
            now = [activity for _, _, activity in self._running.values()]
            used = totals["tokens"] + sum(each.tokens for each in now)
            paid = totals["dollars"] + sum(each.dollars for each in now)
            parts = [f"{self.done:,}/{self.total:,}", f"resolved {totals['resolved']:,.0f}"]
            if totals["judged"]:
                parts.append(f"({100 * totals['resolved'] / totals['judged']:.0f}%)")
            if totals["tampered"]:
                parts.append(f"tampered {totals['tampered']:,.0f}")
            failures = sorted(name for name in totals if name.startswith(FAILED) and totals[name])
            parts += [f"{name} {totals[name]:,.0f}" for name in failures]
            if running:
                parts.append(f"running {len(self._running)}")
            parts += [f"tokens {tokens(used)}", dollars(max(0.0, paid))]
            if running:
                parts.append(f"left {'?' if seconds is None else duration(seconds)}")
            return " ".join(parts)

    def _elapsed(self) -> float:
        return self._clock() - self._started_at

    def _print(self, line: str) -> None:
        self._printed_at = self._clock()
        # A lost terminal must not end the rollouts.
        with suppress(OSError):
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class ProgressBar:
    """A bar of finished items, which is drawn anew every half a minute if there is no terminal.
    Thread-safe. A context manager."""

    def __init__(
        self,
        what: str,
        total: int | None,
        done_before: int = 0,
        *,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`what` names the items in the plural; earlier starts did `done_before` of the `total`,
        which is None until `reach` says it."""
        columns = (*Bar.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
        # One item may take longer than the half a minute over which rich measures the speed.
        self._bar = Bar(
            *columns,
            console=console or VisibleConsole(stderr=True),
            get_time=clock,
            speed_estimate_period=3600,
        )
        known = total is not None
        self._task = self._bar.add_task(what, total=total, completed=done_before, visible=known)
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self._bar.start()
        if not self._bar.console.is_terminal:
            threading.Thread(target=self._draw_on, name="bar", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._bar.stop()

    def _draw_on(self) -> None:
        while not self._ended.wait(EVERY):
            if self._bar.tasks[0].visible:
                self._bar.console.print(self._bar)

    def advance(self) -> None:
        """One more item is done."""
        self._bar.advance(self._task)

    def reach(self, done: float, total: int) -> None:
        """So many of so many items are done; the last one may be so in part."""
        if self._bar.tasks[0].total is None:
            # What an earlier start did says nothing about the time that is left.
            self._bar.reset(self._task, total=total, completed=int(done), visible=True)
        self._bar.update(self._task, completed=done)
