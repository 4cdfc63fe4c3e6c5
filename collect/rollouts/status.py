"""The state of a run: written to its folder by each start, and read for `stepinto status`."""

from __future__ import annotations

import heapq
import os
import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from collect.console import visible
from collect.errors import TRIED_AGAIN, ConfigError, first_wrong_field
from collect.models.budget import read_spent
from collect.quantities import dollars, duration, tokens
from collect.rollouts.progress import Progress
from collect.store.files import StrictRecord, write_text
from collect.store.run_store import RunStore
from collect.store.tables import TableChanged

NAME = "progress.json"
SECONDS = 5.0
"""Seconds between two beats."""
SILENT_SECONDS = 12 * SECONDS
"""A start that is silent for this many seconds has died."""
SHOWN = 5
"""The slowest rollouts, and those running."""
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


class RunningRollout(StrictRecord):
    """A rollout in progress."""

    label: str
    """Bug and variant."""
    seconds: float
    """Since it began."""


class NodeStatus(StrictRecord):
    """A machine of a cluster."""

    host: str
    state: str
    """`ready`, `starting`, `excluded: WHY`, `gone`, or why it can do no rollouts."""
    running: int
    """Number of rollouts."""
    done: int
    lost: int
    """Rollouts in progress when their worker died; they were repeated."""


class Heartbeat(StrictRecord):
    """The recent state of a start. Times are Unix times in seconds."""

    total: int
    """Rollouts that the config asks for."""
    done: int
    done_before: int
    """How many of `done` are from earlier starts."""
    beside: int = 0
    """Rows of earlier starts that the config no longer asks for."""
    started_at: float
    seen_at: float
    ended: bool
    """Whether the process ended normally."""
    host: str
    process: int
    running: tuple[RunningRollout, ...]
    """Longest first."""
    nodes: tuple[NodeStatus, ...] = ()
    """Empty without a cluster."""


@contextmanager
def beating(
    folder: Path,
    progress: Progress,
    nodes: Callable[[], Sequence[NodeStatus]] = tuple,
    every: float = SECONDS,
) -> Iterator[None]:
    """Keep `progress.json` in a run folder up to date, from a background thread. A beat that can't
    be written is skipped: a full disk ends the run when a row can't be stored."""
    started_at, ended = time.time(), threading.Event()

    def beat() -> None:
        now = Heartbeat(
            total=progress.total,
            done=progress.done,
            done_before=progress.done_before,
            beside=progress.beside,
            started_at=started_at,
            seen_at=time.time(),
            ended=ended.is_set(),
            host=platform.node(),
            process=os.getpid(),
            running=tuple(RunningRollout(label=n, seconds=s) for n, s in progress.running()),
            nodes=tuple(nodes()),
        )
        with suppress(OSError):
            write_text(folder / NAME, now.model_dump_json(indent=2) + "\n")

    def beat_on() -> None:
        while not ended.wait(every):
            beat()

    thread = threading.Thread(target=beat_on, name="heartbeat", daemon=True)
    beat()
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        beat()


def read_heartbeat(folder: Path) -> Heartbeat | None:
    """The last start's heartbeat, None if there is none. Raises ConfigError on a broken file."""
    path = folder / NAME
    try:
        return Heartbeat.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise ConfigError(
            f"{path} is not what a run writes there: {first_wrong_field(error, Heartbeat)}; remove "
            "it, the next start writes it anew"
        ) from error


def has_begun(folder: Path) -> bool:
    """Whether a folder has rollouts, or a start that makes some."""
    return (folder / NAME).is_file() or any((folder / "rollouts").glob("*.parquet"))


@dataclass(frozen=True)
class RunStatus:
    """The state of a folder of rollouts."""

    now: float
    """Unix time, seconds."""
    heartbeat: Heartbeat | None
    rows: list[dict[str, Any]]
    """The rollouts so far, with the columns in `COLUMNS`."""
    spent: float
    """Dollars of all starts, including rollouts without a row."""

    def render(self) -> RenderableType:
        """A table of counts, failures, the slowest rollouts and those running."""
        facts = Table.grid(padding=(0, 2))
        for name, value in self._facts():
            facts.add_row(Text(name, style="dim"), Text(value))
        return Group(facts, *(Text(visible(line)) for line in self._lists()))

    def _facts(self) -> Iterator[tuple[str, str]]:
        beat, rows = self.heartbeat, self.rows
        left = 0 if beat is None else beat.total - beat.done
        yield "state", self._state(left)
        yield "rollouts", f"{len(rows)}" if beat is None else f"{beat.done} of {beat.total}"
        if beat is not None and beat.beside:
            yield "", f"and {beat.beside} that the config asks for no more; the rest counts both"
        judged = sum(row["failure_kind"] not in TRIED_AGAIN for row in rows)
        resolved = sum(row["resolved"] for row in rows)
        share = f" ({resolved / judged:.0%})" if judged else ""
        yield "resolved", f"{resolved} of {judged} judged{share}"
        if tampered := sum(row["tampered"] is not None for row in rows):
            yield "tampered", f"{tampered}: their code interfered with the run of the tests"
        if beat is not None and beat.done > beat.done_before:
            per_hour = 3600 * (beat.done - beat.done_before) / (beat.seen_at - beat.started_at)
            yield "rate", f"{per_hour:.0f} an hour"
            if left:
                yield "left", duration(3600 * left / per_hour)
        used = sum(row[name] for row in rows for name in TOKENS)
        paid = sum(row["dollars"] for row in rows)
        for name, total, worded in (("tokens", used, tokens), ("dollars", paid, dollars)):
            # Assumes that the remaining rollouts are like those done.
            end = worded(total * (1 + left / len(rows))) if left and rows else None
            yield name, f"{worded(total)} so far, about {end} at the end" if end else worded(total)
        if dollars(self.spent) != dollars(paid):
            more = "first requests, and rollouts that left no row or were done again"
            yield "", f"{dollars(self.spent)} with {more}"

    def _state(self, left: int) -> str:
        beat = self.heartbeat
        if beat is None:
            return "no start is known here"
        where = f"({beat.host}, process {beat.process})"
        silent = self.now - beat.seen_at
        if beat.ended:
            rest = f", {left} left to do" if left else ""
            return f"ended {duration(silent)} ago{rest} {where}"
        gone = beat.host == platform.node() and not Path(f"/proc/{beat.process}").exists()
        if silent > (2 * SECONDS if gone else SILENT_SECONDS):
            return f"died, last heard of {duration(silent)} ago {where}; start it again"
        return f"running for {duration(self.now - beat.started_at)} {where}"

    def _lists(self) -> Iterator[str]:
        failed = [row for row in self.rows if row["failure_kind"] is not None]
        failures = Counter((row["failure_kind"], row["failure_type"] or "") for row in failed)
        for (kind, name), count in failures.most_common():
            yield f"failed: {count} {kind}, {name}"
        for row in heapq.nlargest(SHOWN, self.rows, key=lambda row: row["seconds"]):
            yield f"slow: {duration(row['seconds'])} {row['instance_id']} {row['variant']}"
        beat = self.heartbeat
        for node in beat.nodes if beat is not None else ():
            counts = f"{node.running} running, {node.done} done, {node.lost} lost"
            yield f"node: {node.host} {node.state}: {counts}"
        running = () if beat is None or beat.ended else beat.running
        for rollout in running[:SHOWN]:
            yield f"running: {duration(rollout.seconds)} {rollout.label}"
        if len(running) > SHOWN:
            yield f"and {len(running) - SHOWN} more"


def read_status(folder: Path, now: float | None = None) -> RunStatus:
    """Read the state, during the run or afterwards. Raises ConfigError on a broken file."""
    for left in reversed(range(READS)):
        try:
            rows = list(RunStore(folder).rollouts.rows(columns=COLUMNS))
            break
        except TableChanged:
            if not left:
                raise
    spent = read_spent(folder, sum(row["dollars"] for row in rows))
    return RunStatus(now or time.time(), read_heartbeat(folder), rows, spent)
