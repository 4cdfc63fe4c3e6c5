"""Writes what a start is doing to a file, for readers outside the process."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from collect.errors import ConfigError
from collect.field_errors import first_wrong_field
from collect.rollouts.progress import Progress
from collect.store.atomic_files import write_text

NAME = "progress.json"
SECONDS = 5.0
"""Seconds between two beats."""


class RunningRollout(BaseModel):
    """A rollout in progress."""

    model_config = ConfigDict(frozen=True)

    label: str
    """Bug and variant."""
    seconds: float
    """Seconds since it began."""


class NodeStatus(BaseModel):
    """A machine of a cluster."""

    model_config = ConfigDict(frozen=True)

    host: str
    state: str
    """`ready`, `starting`, `excluded: WHY`, `gone`, or why it can do no rollouts."""
    running: int
    """Number of rollouts."""
    done: int
    lost: int
    """Rollouts in progress when their worker died; they were repeated."""


class Heartbeat(BaseModel):
    """The recent state of a start. Times are Unix times in seconds."""

    model_config = ConfigDict(frozen=True)

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
    """Keep `progress.json` in a run folder up to date, from a background thread.

    A beat that can't be written is skipped: a full disk ends the run when a row can't be stored.
    """
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
            running=tuple(
                RunningRollout(label=label, seconds=seconds)
                for label, seconds in progress.running()
            ),
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
