"""What a start is doing right now, in a file for those who look from outside."""

from __future__ import annotations

import os
import platform
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError

from collect.durable import write_text
from collect.errors import ConfigError
from collect.progress import Progress

NAME = "progress.json"
SECONDS = 5.0
"""Between two beats."""


class RunningRollout(BaseModel):
    """A rollout that has begun."""

    model_config = ConfigDict(frozen=True)

    label: str
    """Bug and variant."""
    seconds: float
    """Since it began."""


class Heartbeat(BaseModel):
    """A start as it was a moment ago. Times are Unix times in seconds."""

    model_config = ConfigDict(frozen=True)

    total: int
    """Rollouts that the config asks for."""
    done: int
    done_before: int
    """Those of `done` that earlier starts did."""
    started_at: float
    seen_at: float
    ended: bool
    """Whether the process ended in good order."""
    host: str
    process: int
    running: tuple[RunningRollout, ...]
    """The longest first."""


class Heart:
    """Keeps `progress.json` in a run folder up to date, from a thread of its own.

    Use as a context manager. A beat that can't be written is left out: a full disk ends the run
    where a row is to be kept.
    """

    def __init__(self, folder: Path, progress: Progress, every: float = SECONDS) -> None:
        self._path = folder / NAME
        self._progress = progress
        self._every = every
        self._started_at = time.time()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat_on, name="heart", daemon=True)

    def __enter__(self) -> Self:
        self._beat()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._beat()

    def _beat_on(self) -> None:
        while not self._ended.wait(self._every):
            self._beat()

    def _beat(self) -> None:
        with suppress(OSError):
            write_text(self._path, self._now().model_dump_json(indent=2) + "\n")

    def _now(self) -> Heartbeat:
        progress = self._progress
        return Heartbeat(
            total=progress.total,
            done=progress.done,
            done_before=progress.done_before,
            started_at=self._started_at,
            seen_at=time.time(),
            ended=self._ended.is_set(),
            host=platform.node(),
            process=os.getpid(),
            running=tuple(
                RunningRollout(label=label, seconds=seconds)
                for label, seconds in progress.running()
            ),
        )


def read_heartbeat(folder: Path) -> Heartbeat | None:
    """The last start's, None where there was none. Raises ConfigError on a broken file."""
    path = folder / NAME
    try:
        return Heartbeat.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise ConfigError(
            f"{path} is not what a run writes there: {error}; remove it, the next start writes it "
            "anew"
        ) from error
