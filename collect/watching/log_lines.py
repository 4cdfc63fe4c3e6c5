"""The log of a rollout as lines of JSON, `RUN/logs/ROLLOUT_ID.jsonl`.

A rollout that is done again adds to its log. Lines go out in lots, at once after a pause and then
every few seconds, for on a cluster each lot is a message; a killed worker loses its last ones.
"""

from __future__ import annotations

import json
import os
import platform
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from collect.config import RunnerConfig
from collect.records import Rollout
from collect.rollout import RolloutSpec
from collect.watching.rollout_log import NO_LOG, Fact, RolloutLog

FOLDER = "logs"
LOT_SECONDS = 5.0
"""Between two lots, at least."""


class LogText(Protocol):
    """Where the lines of a log go."""

    def add(self, text: str) -> None:
        """Keep more, or lose them: never raises."""


@dataclass(frozen=True)
class LogFile:
    """In a file."""

    path: Path

    def add(self, text: str) -> None:
        """See `LogText`."""
        lines = text.encode()
        with suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                end = file.tell()
                if file.write(lines) != len(lines):
                    # Half a line would spoil the next one.
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
    """The log of a rollout, where the config wants one."""
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
