"""The state of a run, read from its folder, for `stepinto status`."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from collect.errors import TRIED_AGAIN
from collect.models.budget import read_spent
from collect.rollouts.heartbeat import NAME as HEARTBEAT
from collect.rollouts.heartbeat import SECONDS, Heartbeat, read_heartbeat
from collect.store.run_store import RunStore
from collect.store.tables import TableChanged

SILENT_SECONDS = 12 * SECONDS
"""A start that is silent for this many seconds has died."""
SLOWEST = 5
READS = 3
"""Attempts to read: at its end a run moves its rows to another file."""
TOKENS = (
    *("main_prompt_tokens", "main_completion_tokens"),
    *("sub_prompt_tokens", "sub_completion_tokens"),
)
COLUMNS = (
    *("rollout_id", "instance_id", "variant", "resolved", "tampered", "failure_kind"),
    *("failure_type", "dollars", "seconds", *TOKENS),
)


@dataclass(frozen=True)
class Slow:
    """A rollout that took long."""

    instance_id: str
    variant: str
    seconds: float


@dataclass(frozen=True)
class RunStatus:
    """The state of a folder of rollouts."""

    folder: Path
    now: float
    """Unix time, seconds."""
    heartbeat: Heartbeat | None
    rows: int
    resolved: int
    tampered: int
    failures: Counter[tuple[str, str]]
    """Counts by kind and type."""
    tokens: int
    dollars: float
    """Dollars of the rows; a repeated rollout counts once."""
    spent: float
    """Dollars of all starts, including rollouts without a row."""
    slowest: tuple[Slow, ...]

    @property
    def judged(self) -> int:
        """Rows with a verdict on a model."""
        lost = sum(count for (kind, _), count in self.failures.items() if kind in TRIED_AGAIN)
        return self.rows - lost

    @property
    def remaining(self) -> int | None:
        """Rollouts still to do; None if the total is unknown."""
        return None if self.heartbeat is None else self.heartbeat.total - self.heartbeat.done

    @property
    def silent(self) -> float | None:
        """Seconds since the last beat of a start that has not ended; None if it has."""
        beat = self.heartbeat
        return None if beat is None or beat.ended else self.now - beat.seen_at

    @property
    def per_hour(self) -> float | None:
        """Rollouts per hour of the last start; None before its first."""
        beat = self.heartbeat
        if beat is None or beat.done == beat.done_before:
            return None
        return 3600 * (beat.done - beat.done_before) / (beat.seen_at - beat.started_at)

    @property
    def seconds_left(self) -> float | None:
        """At the last start's rate."""
        if not self.remaining or not self.per_hour:
            return None
        return 3600 * self.remaining / self.per_hour

    def at_end(self, so_far: float) -> float | None:
        """Extrapolates a sum to the whole run, assuming that the remaining rollouts are like those
        done; None if none remain."""
        if not self.remaining or not self.rows:
            return None
        return so_far * (1 + self.remaining / self.rows)


def has_begun(folder: Path) -> bool:
    """Whether a folder has rollouts, or a start that makes some."""
    return (folder / HEARTBEAT).is_file() or any((folder / "rollouts").glob("*.parquet"))


def read_status(folder: Path, now: float | None = None) -> RunStatus:
    """Read the state, during the run or afterwards. Raises ConfigError on a broken file."""
    for _ in range(READS - 1):
        try:
            return _read(folder, now)
        except TableChanged:
            continue
    return _read(folder, now)


def _read(folder: Path, now: float | None) -> RunStatus:
    rows = list(RunStore(folder).rollouts.rows(columns=COLUMNS))
    slowest = heapq.nlargest(SLOWEST, rows, key=lambda row: row["seconds"])
    failed = [row for row in rows if row["failure_kind"] is not None]
    dollars = sum(row["dollars"] for row in rows)
    return RunStatus(
        folder=folder,
        now=time.time() if now is None else now,
        heartbeat=read_heartbeat(folder),
        rows=len(rows),
        resolved=sum(row["resolved"] for row in rows),
        tampered=sum(row["tampered"] is not None for row in rows),
        failures=Counter((row["failure_kind"], row["failure_type"] or "") for row in failed),
        tokens=sum(row[name] for row in rows for name in TOKENS),
        dollars=dollars,
        spent=read_spent(folder, dollars),
        slowest=tuple(Slow(row["instance_id"], row["variant"], row["seconds"]) for row in slowest),
    )
