"""The state of a run: written to its folder by each start, and read for `stepinto status`."""

from __future__ import annotations

import heapq
import os
import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from pydantic import ValidationError
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from collect.console import visible
from collect.errors import ConfigError, FileMoved, first_wrong_field
from collect.models.budget import read_spent
from collect.models.finish_reasons import LENGTH
from collect.quantities import dollars, duration, tokens
from collect.rollouts.progress import OF_TYPE, Progress
from collect.store.files import StrictRecord, write_text
from collect.store.run_store import RunStore

NAME = "progress.json"
SECONDS = 5.0
"""Seconds between two beats."""
SILENT_SECONDS = 12 * SECONDS
"""A start that is silent for this many seconds has died."""
SHOWN = 5
"""The slowest rollouts, and those running."""
READS = 3
"""So often the slowest are read, if the run moves files meanwhile."""
REASONS = ("rollout_id", "messages.list.element.finish_reason")
COLUMNS = ("rollout_id", "instance_id", "variant", "main_model", "sub_model", "seconds")


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
    numbers: str
    """What came of them, as the start prints it."""
    metrics: Mapping[str, float]
    """As they are sent to wandb."""
    started_at: float
    seen_at: float
    ended: bool
    """Whether the process ended normally."""
    host: str
    process: int
    running: tuple[tuple[str, float], ...]
    """Bug and variant of each rollout in progress, and seconds since it began; longest first."""
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
            numbers=progress.numbers(running=not ended.is_set()),
            metrics=progress.metrics(),
            started_at=started_at,
            seen_at=time.time(),
            ended=ended.is_set(),
            host=platform.node(),
            process=os.getpid(),
            running=tuple(progress.running()),
            nodes=tuple(nodes()),
        )
        with suppress(OSError):
            write_text(folder / NAME, now.model_dump_json(indent=2) + "\n")

    def beat_on() -> None:
        while not ended.wait(every):
            beat()
            progress.tell_running()

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


def is_over(folders: Sequence[Path]) -> bool:
    """Whether the last start in a run's folders of rollouts has died, or has ended and its process,
    which may have other stages to do, is gone or on another machine."""
    beats = [beat for folder in folders if (beat := read_heartbeat(folder)) is not None]
    if not beats:
        return bool(folders)
    last = max(beats, key=lambda beat: beat.seen_at)
    if last.ended:
        return not _lives_here(last)
    return _died(last, time.time())


def running_start(folder: Path) -> Heartbeat | None:
    """The start that does a folder's rollouts now; None if there is none, or nothing readable."""
    try:
        beat = read_heartbeat(folder)
    except ConfigError:
        return None
    if beat is None or beat.ended or _died(beat, time.time()):
        return None
    return beat


def _lives_here(beat: Heartbeat) -> bool:
    return beat.host == platform.node() and Path(f"/proc/{beat.process}").exists()


def _died(beat: Heartbeat, now: float) -> bool:
    gone = beat.host == platform.node() and not _lives_here(beat)
    # A time ahead of now is as old as one behind it: the clock has been set back since.
    return abs(now - beat.seen_at) > (2 * SECONDS if gone else SILENT_SECONDS)


def read_status(folder: Path, now: float | None = None) -> RenderableType:
    """The state of a folder of rollouts, during the run or afterwards: numbers, failures, nodes,
    and the slowest rollouts. `now` is a Unix time in seconds. Raises ConfigError on a
    broken file."""
    beat = read_heartbeat(folder)
    facts = Table.grid(padding=(0, 2))
    if beat is None:
        facts.add_row("state", "no start is known here")
        facts.add_row("rollouts", str(len(RunStore(folder).rollouts.ids())))
        return facts
    facts.add_row("state", _state(beat, now or time.time()))
    facts.add_row("rollouts", Text(beat.numbers))
    used, of_rows = beat.metrics["tokens"], beat.metrics["dollars"]
    if 0 < beat.done < beat.total:
        # Assumes that the remaining rollouts are like those done.
        end = beat.total / beat.done
        if rate := beat.metrics["rollouts/per_hour"]:  # 0: this start has done none yet
            facts.add_row("rate", f"{rate:.1f} an hour")
        if used or of_rows:
            at_end = f"about {tokens(end * used)} tokens, {dollars(end * of_rows)}"
            facts.add_row("at the end", at_end)
    spent = dollars(read_spent(folder, of_rows))
    if spent != dollars(of_rows):
        more = "first requests, and rollouts that left no row or were done again"
        facts.add_row("spent", f"{spent} with {more}")
    replies, cut = _replies(folder)
    if cut:
        facts.add_row("cut", f"{cut:,} of {replies:,} replies at the limit of their length")
    return Group(facts, *(Text(visible(line)) for line in _lists(beat, _slowest(folder))))


def _replies(folder: Path) -> tuple[int, int]:
    """How many replies the rollouts have, and how many of them were cut at their limit."""
    for _ in range(READS):
        reasons = Counter[str | None]()
        with suppress(FileMoved):
            for batch in RunStore(folder).conversations.batches(columns=REASONS):
                rows = pc.list_flatten(batch["messages"])
                reasons.update(pc.struct_field(rows, "finish_reason").to_pylist())
            del reasons[None]
            return reasons.total(), reasons[LENGTH]
    return 0, 0


def _slowest(folder: Path) -> list[Mapping[str, Any]]:
    for _ in range(READS):
        with suppress(FileMoved):
            rows = RunStore(folder).rollouts.rows(columns=COLUMNS)
            return heapq.nlargest(SHOWN, rows, key=lambda row: row["seconds"])
    return []


def _state(beat: Heartbeat, now: float) -> str:
    where = f"({beat.host}, process {beat.process})"
    silent, left = max(now - beat.seen_at, 0.0), beat.total - beat.done
    if beat.ended:
        rest = f", {left} left to do" if left else ""
        rest += ", its command goes on" if _lives_here(beat) else ""
        return f"ended {duration(silent)} ago{rest} {where}"
    if _died(beat, now):
        return f"died, last heard of {duration(silent)} ago {where}; start it again"
    return f"running for {duration(max(now - beat.started_at, 0.0))} {where}"


def _lists(beat: Heartbeat, slowest: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for name, count in sorted(beat.metrics.items(), key=lambda each: -each[1]):
        if name.startswith(OF_TYPE) and count:
            yield f"failed: {count:.0f} {name.removeprefix(OF_TYPE)}"
    for row in slowest:
        models = " → ".join(filter(None, (row["main_model"], row["sub_model"])))
        bug = f"{row['instance_id']} {row['variant']}"
        yield f"slowest: {duration(row['seconds'])} {bug} {models}"
    for node in beat.nodes:
        counts = f"{node.running} running, {node.done} done, {node.lost} lost"
        yield f"node: {node.host} {node.state}: {counts}"
    running = () if beat.ended else beat.running
    for label, seconds in running[:SHOWN]:
        yield f"running: {duration(seconds)} {label}"
    if len(running) > SHOWN:
        yield f"and {len(running) - SHOWN} more"
