"""The log of a rollout as lines of JSON, `RUN/logs/ROLLOUT_ID.jsonl`.

A repeated rollout appends to its log. Lines are written in batches: at once after a pause, then
every few seconds, because on a cluster each batch is a message. A killed worker loses its last
lines.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

FOLDER = "logs"
BATCH_SECONDS = 5.0
"""Minimum seconds between two batches."""
Fact = str | int | float | bool | None


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


def log_file(folder: Path, rollout_id: str) -> LogFile:
    """The file of a rollout's log in a run's folder."""
    return LogFile(folder / FOLDER / f"{rollout_id}.jsonl")


class RolloutLog:
    """Takes the events of one rollout, in that rollout's thread only.

    Never raises: a rollout must not fail because of its log. Events contain no text from models,
    tools or programs, and no keys.
    """

    def __init__(self, text: LogText | None = None) -> None:
        """Without `text`, events are discarded."""
        self._text = text
        self._lines: list[str] = []
        self._written_at = float("-inf")

    def note(self, event: str, **facts: Fact) -> None:
        """Record an event with the current time."""
        if self._text is None:
            return
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        rounded = {
            name: float(f"{fact:.6g}") if isinstance(fact, float) else fact
            for name, fact in facts.items()
        }
        self._lines.append(json.dumps({"time": now, "event": event} | rounded))
        if time.monotonic() - self._written_at >= BATCH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the events so far."""
        if self._lines and self._text is not None:
            self._text.add("".join(f"{line}\n" for line in self._lines))
            self._lines.clear()
            self._written_at = time.monotonic()


NO_LOG = RolloutLog()
"""Discards events."""
